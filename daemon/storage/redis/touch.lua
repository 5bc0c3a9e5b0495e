-- Compare for an idle owner, together with its idle mark. KEYS: head. ARGV: token, sequence, idle mark in ms ('' = none).
-- Answers 1 while the caller is the writer, else 0.
local held = redis.call('HMGET', KEYS[1], 'token', 'sequence')
if held[1] ~= ARGV[1] or held[2] ~= ARGV[2] then return 0 end
if ARGV[3] ~= '' then redis.call('HSET', KEYS[1], 'idle', ARGV[3]) end
return 1
