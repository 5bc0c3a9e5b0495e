-- Unlink keys that an earlier lane of this number left behind: those that `changes` of the present lane does not list.
-- KEYS: head, changes, then the keys to check. ARGV: mark of the claim that made the head, then the names of these keys in `changes`.
-- Without keys to check, all have been checked: the mark is removed. Answers how many keys were unlinked.
--
-- The mark and the list are compared in the same step as the keys are unlinked, because the lane's owner commits meanwhile: a key that
-- it has just written is listed, and stays. The mark is removed last, so that the next owner repeats a sweep that was given up. Another
-- mark means that the head was lost again: keys found before may belong to the present lane.
if redis.call('HGET', KEYS[1], 'unswept') ~= ARGV[1] then return 0 end
-- Where `changes` is gone, no key is listed: the lane is damaged, and nothing of it is left behind. The next owner repeats the sweep.
if redis.call('ZCARD', KEYS[2]) ~= tonumber(redis.call('HGET', KEYS[1], 'keys')) then return 0 end
if #KEYS == 2 then
  redis.call('HDEL', KEYS[1], 'unswept')
  return 0
end
local unlinked = 0
for i = 3, #KEYS do
  if not redis.call('ZSCORE', KEYS[2], ARGV[i - 1]) then
    unlinked = unlinked + redis.call('UNLINK', KEYS[i])
  end
end
return unlinked
