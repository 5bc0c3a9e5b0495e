-- What changed of a lane since a reader last looked, in the order in which it was written. Writes nothing.
-- KEYS: head, names, changes. ARGV: prefix of the lane's keys, token and sequence of the head that the reader saw last ('' = none),
--       sequence up to which it has the pages, segment names that it has, bytes after which no other commit's pages are begun.
-- Answers {head as pairs, 1 if the reader must forget what it has, names from the first unknown on, keys, values,
--          sequence up to which it has the pages now, 1 if these are all}.
local head = redis.call('HGETALL', KEYS[1])
if #head == 0 then return {head, 1, {}, {}, {}, '0', 1} end
local held = redis.call('HMGET', KEYS[1], 'token', 'sequence')
local whole = held[1] ~= ARGV[2] or ARGV[3] == '' or tonumber(held[2]) < tonumber(ARGV[3])
-- Keys that readers do not follow stand at 0.
local upto = whole and '0' or ARGV[4]
local names = {}
for number = whole and 1 or tonumber(ARGV[5]), redis.call('HLEN', KEYS[2]) do
  names[#names + 1] = redis.call('HGET', KEYS[2], string.format('%.0f', number))
end
local keys, values, bytes, done = {}, {}, 0, 1
local listed = redis.call('ZRANGEBYSCORE', KEYS[3], '(' .. upto, '+inf', 'WITHSCORES')
for i = 1, #listed, 2 do
  if bytes >= tonumber(ARGV[6]) and listed[i + 1] ~= upto then
    done = 0
    break
  end
  upto = listed[i + 1]
  local value = redis.call('GET', ARGV[1] .. listed[i])
  if value then
    keys[#keys + 1] = listed[i]
    values[#values + 1] = value
    bytes = bytes + #value
  end
end
return {head, whole and 1 or 0, names, keys, values, upto, done}
