-- Make the caller the only writer of a lane, unless the lane lost its head.
-- KEYS: head, names, changes, admitted. ARGV: token, prefix of the lane's keys, 1 if the namespace knows that the lane began (else 0),
--       number of head fields, then field/value pairs for a new head.
-- Answers the head as field/value pairs; false, having written nothing, if the lane began and its head is gone.
--
-- Why in this order. An error stops a script where it is, and nothing is taken back:
-- 1. A lane whose head is gone is not begun here, although nothing is easier: where it began is known, and only the caller can find out
--    whether the log still goes back so far. Without that, a lane would begin where new lanes do, and its numbers be smaller.
-- 2. A new head gets its starting offsets here, not with the first commit: otherwise a crash before that commit would start again
--    elsewhere in the log, and lose the records between.
-- 3. The token is written last: from then on every commit of the former owner is answered `lost`, and not before the head is whole.
-- A claim is never sent twice: every attempt brings a new token. So a delayed delivery of an earlier attempt leaves a token that nobody
-- uses, the owner's next compare is answered `lost`, and it claims again; with one token for all attempts it would pass unseen.
local head, names, changes, admitted = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local former = redis.call('HMGET', head, 'token', 'sequence')
if former[2] then
  -- Nobody can publish any more what a former owner staged for its next commit. The keys are numbered without a gap.
  local stage = ARGV[2] .. 'stage:' .. (former[1] or '') .. ':' .. former[2] .. ':'
  local number = 0
  while redis.call('UNLINK', stage .. number) == 1 do number = number + 1 end
else
  if ARGV[3] == '1' or redis.call('EXISTS', head, names, changes, admitted) > 0 then return false end
  redis.call('HSET', head, 'sequence', '0', 'keys', '0', 'names', '0', unpack(ARGV, 5, 4 + 2 * tonumber(ARGV[4])))
end
redis.call('HSET', head, 'token', ARGV[1])
return redis.call('HGETALL', head)
