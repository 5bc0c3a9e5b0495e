-- Make the caller the one writer of a lane.
-- KEYS: head, names, changes, admitted. ARGV: token, prefix of the lane's keys, head fields, then field/value pairs for a new head.
-- Answers the head as field/value pairs.
local head, names, changes, admitted = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local prefix = ARGV[2]
local former = redis.call('HMGET', head, 'token', 'sequence')
if former[2] then
  -- What a former owner staged for its next commit is of no use any more. The keys are numbered without a gap.
  local stage = prefix .. 'stage:' .. former[1] .. ':' .. former[2] .. ':'
  local number = 0
  while redis.call('UNLINK', stage .. number) == 1 do number = number + 1 end
else
  -- Leftovers of a lane whose head is gone (it was removed by hand, or evicted): none of it may enter the new one, or stay.
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
