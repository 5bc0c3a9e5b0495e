-- One atomic step of a lane: publish its values, then move the head.
-- KEYS: head, names, changes, then the staged keys, the keys that readers follow (listed), those that they do not (unread),
--       those to unlink, and those to keep, as many of each as ARGV says.
-- ARGV: token, sequence, number of keys staged, listed, unread and unlinked, number of names, number of head fields, number of
--       keys to keep ('' = this is no repair), and how many of these, the last ones, readers do not follow;
--       then the value of each listed and unread key ('' = the next of the staged ones), id/name pairs, and field/value
--       pairs of the head. `changes` lists every key of the lane: the unread ones at 0, before any sequence, so that no key is
--       forgotten when the head is.
-- A repair writes all that its owner has of the lane, and only the keys to keep are in the store alone.
-- Where these are too many for one call, KEYS are head, names, changes and one more staged key, which contains all KEYS and then
--       all ARGV as MessagePack; and ARGV are token and sequence.
-- Answers: applied, already (a retry whose first answer was lost), damaged (keys or names of the lane are missing: nothing was
--          written), lost (anything else).
--
-- Why in this order. A model of this protocol was searched with crashes, roll-backs, paused owners, lost replies, and delayed and
-- doubled deliveries: it is safe and live as it stands, and not without any one of these checks.
-- 1. The token is compared before the sequence: `already` is an answer for the owner alone. Another owner's next commit has the
--    same sequence, and must not pass for ours.
-- 2. The sequence is compared before the parts: a retry after a lost reply finds its parts renamed, and must be answered `already`.
-- 3. All staged parts are checked before the first write: they have a time to live, and a failover may have lost some. Publishing
--    the others would lose state in silence.
-- 4. Whatever may raise an error is touched before the first write: an error stops a script where it is, and nothing is taken back.
--    So is every key of a staged call. Where a slot of a cluster is moving, servers refuse scripts with a key that is not there, but
--    know only of keys that came with the call.
-- 5. Values are published by SET, or by RENAME and then PERSIST of a staged key: without PERSIST the published value would expire.
--    All values are absolute, so that publishing again over what a roll-back left behind gives the same.
-- 6. Keys are unlinked after everything is published: a merged block is there before the blocks that it replaces are gone.
-- 7. The head comes last, in one HSET with the sequence: no state is claimed that is not there. It says how many keys and names
--    there are; they are counted here, so that they are those of this sequence whatever a repetition finds.
-- 8. These numbers are compared before the first write. Where `changes` or `names` is gone, this commit would make it anew with what
--    it brings itself, and from then on the lane would look whole. That a listed key is there is checked by `verify`, not here:
--    it costs as much as the lane is large.
-- 9. The first write lists a mark of this commit in `changes`, a key that is never there, and the last one removes it. A server that
--    crashed while it appended this script to its log, and whose log was then cut inside it, may publish a part of these values at a
--    later start (Redis and Valkey before 2026-08 cut an unfinished MULTI too late). The mark is then left, and the lane is damaged.
local KEYS, ARGV = KEYS, ARGV
local head, names, changes = KEYS[1], KEYS[2], KEYS[3]
local token, sequence = ARGV[1], ARGV[2]
-- Sequences are compared as text: whole numbers below 2^53, which the writer counts.
local following = string.format('%.0f', tonumber(sequence) + 1)
-- How many arguments one command gets: most of the cost of a command is that it is one. Even, because some are pairs, and far below
-- the limit of `unpack` (about 8000).
local AT_ONCE = 1000

local function portions(first, count, act)
  for from = first, first + count - 1, AT_ONCE do
    act(from, math.min(from + AT_ONCE, first + count) - 1)
  end
end

local stored = redis.call('HMGET', head, 'token', 'sequence', 'keys', 'names')
if stored[1] ~= token then return 'lost' end
if stored[2] == following then return 'already' end
if stored[2] ~= sequence then return 'lost' end
local call = #ARGV == 2 and KEYS[4]
if call then
  local packed = redis.call('GET', call)
  if not packed then return 'lost' end
  KEYS, ARGV = cmsgpack.unpack(packed)
  portions(4, #KEYS - 3, function(from, to) redis.call('EXISTS', unpack(KEYS, from, to)) end)
end
local staged, listed, unread = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local unlinked, named, fields = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
local is_repair, kept, kept_unread = ARGV[9] ~= '', tonumber(ARGV[9]) or 0, tonumber(ARGV[10])
local present = 0
portions(4, staged, function(from, to) present = present + redis.call('EXISTS', unpack(KEYS, from, to)) end)
if present ~= staged then return 'lost' end
local stage, first = 3, 4 + staged
local written = listed + unread
local first_kept = first + written + unlinked
-- These raise an error here, before the first write, where a key has a wrong type.
local keys_there, names_there = redis.call('ZCARD', changes), redis.call('HLEN', names)
if is_repair then
  local there = 0
  portions(first_kept, kept, function(from, to) there = there + redis.call('EXISTS', unpack(KEYS, from, to)) end)
  if there ~= kept then return 'damaged' end
  redis.call('UNLINK', names, changes)
elseif keys_there ~= tonumber(stored[3]) or names_there ~= tonumber(stored[4]) then
  return 'damaged'
end
local mark = 'commit:' .. token .. ':' .. sequence
redis.call('ZADD', changes, following, mark)
local at = 11
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
portions(first_kept, kept - kept_unread, list(following))
portions(first_kept + kept - kept_unread, kept_unread, list('0'))
portions(first + written, unlinked, function(from, to)
  local keys = {}
  for i = from, to do keys[#keys + 1] = string.sub(KEYS[i], behind_prefix) end
  redis.call('UNLINK', unpack(KEYS, from, to))
  redis.call('ZREM', changes, unpack(keys))
end)
at = at + 2 * named
if call then redis.call('UNLINK', call) end
-- Must stay the last write but the mark, and one command: offsets and state belong to this sequence.
redis.call('HSET', head, 'sequence', following, 'keys', redis.call('ZCARD', changes) - 1, 'names', redis.call('HLEN', names),
  unpack(ARGV, at, at + 2 * fields - 1))
redis.call('ZREM', changes, mark)
return 'applied'
