-- One atomic step of a lane: publish what was staged, move the head.
-- KEYS: head, names, changes, then the staged keys, their targets, and the keys to unlink, as many as ARGV says.
-- ARGV: token, sequence, staged, unlinked, head fields, names, listed, unread;
--       then field/value pairs of the head, number/name pairs, and the names of keys: those that readers follow (listed),
--       those that they do not (unread), those that are unlinked. `changes` knows every key: the unread ones at 0, before
--       any sequence, so that no key is forgotten when the head is.
-- Answers: applied, already (a retry whose first answer was lost), lost (anything else).
local head, names, changes = KEYS[1], KEYS[2], KEYS[3]
local token, sequence = ARGV[1], ARGV[2]
local staged, unlinked = tonumber(ARGV[3]), tonumber(ARGV[4])
local fields, named = tonumber(ARGV[5]), tonumber(ARGV[6])
local listed, unread = tonumber(ARGV[7]), tonumber(ARGV[8])
-- Sequences are compared as text: whole numbers below 2^53, which the writer counts.
local following = string.format('%.0f', tonumber(sequence) + 1)

local held = redis.call('HMGET', head, 'token', 'sequence')
if held[1] ~= token then return 'lost' end
if held[2] == following then return 'already' end
if held[2] ~= sequence then return 'lost' end
for i = 1, staged do
  if redis.call('EXISTS', KEYS[3 + i]) == 0 then return 'lost' end
end
-- An error stops a script where it is, and nothing is taken back: a key of a wrong type must be met before the first write.
redis.call('HLEN', names)
redis.call('ZCARD', changes)

for i = 1, staged do
  redis.call('RENAME', KEYS[3 + i], KEYS[3 + staged + i])
  redis.call('PERSIST', KEYS[3 + staged + i])
end
for i = 1, unlinked do
  redis.call('UNLINK', KEYS[3 + 2 * staged + i])
end
local at = 8
for _ = 1, fields do
  redis.call('HSET', head, ARGV[at + 1], ARGV[at + 2])
  at = at + 2
end
for _ = 1, named do
  redis.call('HSET', names, ARGV[at + 1], ARGV[at + 2])
  at = at + 2
end
for _ = 1, listed do
  redis.call('ZADD', changes, following, ARGV[at + 1])
  at = at + 1
end
for _ = 1, unread do
  redis.call('ZADD', changes, 0, ARGV[at + 1])
  at = at + 1
end
for _ = 1, unlinked do
  redis.call('ZREM', changes, ARGV[at + 1])
  at = at + 1
end
redis.call('HSET', head, 'sequence', following)
return 'applied'
