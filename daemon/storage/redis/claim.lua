-- Make the caller the only writer of a lane.
-- KEYS: head, names, changes, admitted. ARGV: token, prefix of the lane's keys, number of head fields, then field/value pairs for a new head.
-- Answers the head as field/value pairs.
--
-- Why in this order. An error stops a script where it is, and nothing is taken back:
-- 1. What an earlier lane left behind is removed first: under a new head it would count as the new lane's state. `changes` is read
--    before it is unlinked.
-- 2. A new head gets its starting offsets here, not with the first commit: otherwise a crash before that commit would start again
--    elsewhere in the log, and lose the records between.
-- 3. The token is written last: from then on every commit of the former owner is answered `lost`, and not before the head is whole.
-- A claim is never sent twice: every attempt brings a new token. So a delayed delivery of an earlier attempt leaves a token that nobody
-- uses, the owner's next compare is answered `lost`, and it claims again; with one token for all attempts it would pass unseen.
local head, names, changes, admitted = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local prefix = ARGV[2]
local former = redis.call('HMGET', head, 'token', 'sequence')
if former[2] then
  -- Nobody can publish any more what a former owner staged for its next commit. The keys are numbered without a gap.
  local stage = prefix .. 'stage:' .. former[1] .. ':' .. former[2] .. ':'
  local number = 0
  while redis.call('UNLINK', stage .. number) == 1 do number = number + 1 end
else
  -- The head is gone (removed by hand, or evicted), but other keys of the lane may be left: none may enter the new lane, or stay.
  for _, key in ipairs(redis.call('ZRANGE', changes, 0, -1)) do
    redis.call('UNLINK', prefix .. key)
  end
  redis.call('UNLINK', names, changes, admitted)
  for i = 1, tonumber(ARGV[3]) do
    redis.call('HSET', head, ARGV[2 + 2 * i], ARGV[3 + 2 * i])
  end
  redis.call('HSET', head, 'sequence', '0')
end
redis.call('HSET', head, 'token', ARGV[1])
return redis.call('HGETALL', head)
