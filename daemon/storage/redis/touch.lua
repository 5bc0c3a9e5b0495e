-- Compare token and sequence for an owner without records, and write its idle mark.
-- KEYS: head. ARGV: token, sequence, idle mark in ms ('' = none). Answers 1 while the caller is the writer, else 0.
--
-- Compare and mark are one step: the mark moves the lane's time on, which only the present owner may do. Without the compare an owner
-- that has nothing to commit would never learn that it lost the lane, or that the server was rolled back.
local stored = redis.call('HMGET', KEYS[1], 'token', 'sequence')
if stored[1] ~= ARGV[1] or stored[2] ~= ARGV[2] then return 0 end
if ARGV[3] ~= '' then redis.call('HSET', KEYS[1], 'idle', ARGV[3]) end
return 1
