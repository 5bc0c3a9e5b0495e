-- Read parts of a lane for its writer, and only while it is the writer. Writes nothing.
-- KEYS: head, names, changes, then the keys to read. ARGV: token, sequence.
-- Without keys to read it answers {names as field/value pairs, keys that readers follow, number of all keys listed, the numbers of keys
-- and names that the head says}; else the values; false if the lane is lost.
--
-- A lane is read in several calls. Each compares token and sequence in the same step as it reads, so that all parts are of one commit:
-- between two calls another owner may have written, or the server may have been rolled back.
-- The numbers come with the list, and every value that is missing is noticed, though `verify` was asked before: keys may vanish between.
local stored = redis.call('HMGET', KEYS[1], 'token', 'sequence', 'keys', 'names')
if stored[1] ~= ARGV[1] or stored[2] ~= ARGV[2] then return false end
if #KEYS == 3 then
  local listed = redis.call('ZRANGEBYSCORE', KEYS[3], '(0', '+inf')
  return {redis.call('HGETALL', KEYS[2]), listed, redis.call('ZCARD', KEYS[3]), stored[3] or '', stored[4] or ''}
end
local values = {}
for i = 4, #KEYS do values[i - 3] = redis.call('GET', KEYS[i]) end
return values
