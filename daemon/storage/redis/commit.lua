-- One atomic step of a lane: publish what it brings, move the head.
-- KEYS: head, names, changes, then the staged keys, the keys that readers follow (listed), those that they do not (unread),
--       and those to unlink, as many as ARGV says.
-- ARGV: token, sequence, staged, listed, unread, unlinked, names, head fields;
--       then the value of each listed and unread key ('' = the next of the staged ones), number/name pairs, and field/value
--       pairs of the head. `changes` knows every key behind the lane's prefix: the unread ones at 0, before any sequence, so
--       that no key is forgotten when the head is.
-- Answers: applied, already (a retry whose first answer was lost), lost (anything else).
local head, names, changes = KEYS[1], KEYS[2], KEYS[3]
local token, sequence = ARGV[1], ARGV[2]
local staged, listed, unread = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local unlinked, named, fields = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
-- Sequences are compared as text: whole numbers below 2^53, which the writer counts.
local following = string.format('%.0f', tonumber(sequence) + 1)
-- What one command is given: most of what a command costs here is that it is one. An even number, far below the limit of `unpack`.
local AT_ONCE = 1000

local function portions(first, count, act)
  for from = first, first + count - 1, AT_ONCE do
    act(from, math.min(from + AT_ONCE, first + count) - 1)
  end
end

local held = redis.call('HMGET', head, 'token', 'sequence')
if held[1] ~= token then return 'lost' end
if held[2] == following then return 'already' end
if held[2] ~= sequence then return 'lost' end
local there = 0
portions(4, staged, function(from, to) there = there + redis.call('EXISTS', unpack(KEYS, from, to)) end)
if there ~= staged then return 'lost' end
-- An error stops a script where it is, and nothing is taken back: a key of a wrong type must be met before the first write.
redis.call('HLEN', names)
redis.call('ZCARD', changes)

local stage, first = 3, 4 + staged
local written = listed + unread
local at = 9
for i = 0, written - 1 do
  local key, value = KEYS[first + i], ARGV[at + i]
  if value == '' then
    stage = stage + 1
    redis.call('RENAME', KEYS[stage], key)
    redis.call('PERSIST', key)
  else
    redis.call('SET', key, value)
  end
end
at = at + written
portions(at, 2 * named, function(from, to) redis.call('HSET', names, unpack(ARGV, from, to)) end)

local behind_prefix = #head - #'head' + 1
local function list(score)
  return function(from, to)
    local pairs = {}
    for i = from, to do
      pairs[#pairs + 1] = score
      pairs[#pairs + 1] = string.sub(KEYS[i], behind_prefix)
    end
    redis.call('ZADD', changes, unpack(pairs))
  end
end
portions(first, listed, list(following))
portions(first + listed, unread, list('0'))
portions(first + written, unlinked, function(from, to)
  local gone = {}
  for i = from, to do gone[#gone + 1] = string.sub(KEYS[i], behind_prefix) end
  redis.call('UNLINK', unpack(KEYS, from, to))
  redis.call('ZREM', changes, unpack(gone))
end)
at = at + 2 * named
redis.call('HSET', head, 'sequence', following, unpack(ARGV, at, at + 2 * fields - 1))
return 'applied'
