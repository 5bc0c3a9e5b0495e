-- Clear away what a former life of a lane left behind, of which no list was left: keys that this life does not list.
-- KEYS: head, changes, then keys to look at. ARGV: mark of the life that is swept, then the names of these keys in `changes`.
-- Without keys to look at, all have been: the mark is taken away. Answers how many keys were unlinked.
if redis.call('HGET', KEYS[1], 'unswept') ~= ARGV[1] then return 0 end
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
