-- Read parts of a lane for its writer, only while it is the writer.
-- KEYS: head, names, changes, then the keys to read. ARGV: token, sequence.
-- Without keys to read it answers {names as field/value pairs, keys that readers follow}; else the values. Lost: false.
local held = redis.call('HMGET', KEYS[1], 'token', 'sequence')
if held[1] ~= ARGV[1] or held[2] ~= ARGV[2] then return false end
if #KEYS == 3 then
  return {redis.call('HGETALL', KEYS[2]), redis.call('ZRANGEBYSCORE', KEYS[3], '(0', '+inf')}
end
local values = {}
for i = 4, #KEYS do values[i - 3] = redis.call('GET', KEYS[i]) end
return values
