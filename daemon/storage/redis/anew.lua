-- Begin a damaged lane anew: remove what is left of it, and make a new head with the caller as its writer.
-- KEYS: head, names, changes, admitted. ARGV: token of the head that the caller found damaged ('' = it found none), new token, prefix of
--       the lane's keys, number of head fields, then field/value pairs for the new head.
-- Answers the head as field/value pairs; false, having written nothing, if the head is not the one that the caller found.
--
-- Why compared: between finding the damage and this, another owner may have claimed the lane, repaired it or begun it anew, and a delayed
-- delivery may come at any time. `changes` is read before it is unlinked. Keys that it does not list any more are found by the sweep:
-- the new head is marked as unswept.
local head, names, changes, admitted = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
if (redis.call('HGET', head, 'token') or '') ~= ARGV[1] then return false end
for _, key in ipairs(redis.call('ZRANGE', changes, 0, -1)) do
  redis.call('UNLINK', ARGV[3] .. key)
end
redis.call('UNLINK', head, names, changes, admitted)
redis.call('HSET', head, 'sequence', '0', 'keys', '0', 'names', '0', 'token', ARGV[2], unpack(ARGV, 5, 4 + 2 * tonumber(ARGV[4])))
return redis.call('HGETALL', head)
