-- Note in the head that the owner's work on a batch takes too long.
-- KEYS: head. ARGV: token, sequence, the mark. Answers 1 while the caller is the writer, else 0.
--
-- Compare and mark are one step: the mark counts owners that took too long over the same batch, and a former owner, or one whose commit
-- was applied in the meantime, must not add to it. It moves no sequence: the commit of the batch, if it comes after all, is not hindered.
local stored = redis.call('HMGET', KEYS[1], 'token', 'sequence')
if stored[1] ~= ARGV[1] or stored[2] ~= ARGV[2] then return 0 end
redis.call('HSET', KEYS[1], 'stall', ARGV[3])
return 1
