-- Find out which keys of a lane are missing, for its writer. Writes nothing.
-- KEYS: head, names, changes, then keys to check. ARGV: token, sequence, prefix of the lane's keys, first and last rank in `changes`.
-- Without keys to check, those that `changes` lists at these ranks are. Answers {keys listed, names, as many as the head says of each,
-- names of the missing keys}; false if the lane is lost.
--
-- A lane is checked in several calls, each of which compares token and sequence: while they stay, ranks do.
local stored = redis.call('HMGET', KEYS[1], 'token', 'sequence', 'keys', 'names')
if stored[1] ~= ARGV[1] or stored[2] ~= ARGV[2] then return false end
local keys = {}
for i = 4, #KEYS do keys[i - 3] = KEYS[i] end
if #KEYS == 3 then
  for i, name in ipairs(redis.call('ZRANGE', KEYS[3], ARGV[4], ARGV[5])) do keys[i] = ARGV[3] .. name end
end
local missing = {}
-- One command for all: most lanes are whole.
if #keys > 0 and redis.call('EXISTS', unpack(keys)) ~= #keys then
  for _, key in ipairs(keys) do
    if redis.call('EXISTS', key) == 0 then missing[#missing + 1] = string.sub(key, #ARGV[3] + 1) end
  end
end
return {redis.call('ZCARD', KEYS[3]), redis.call('HLEN', KEYS[2]), stored[3] or '', stored[4] or '', missing}
