-- Read what changed of a lane since the last read, in the order in which it was written. Writes nothing.
-- KEYS: head, names, changes. ARGV: prefix of the lane's keys, token and sequence of the head that the reader read last ('' = none),
--       sequence up to which it has the pages, number of segment names that it has, bytes from which on no further commit is begun.
-- Answers {head as pairs, 1 if the reader must drop what it has, new names, keys, values, sequence up to which it has the pages now,
--          1 if these are all, what is wrong with the lane ('' = nothing), listed keys that are not there}.
--
-- A lane is read only where it is whole: every key that is listed must be there, and as many keys and names as its head says. A page that
-- is not there is no page of zeros. (Where a slot of a cluster is moving, pages may not have come yet: the caller asks again, by name.)
--
-- Why in the order of writing: a reader may need several calls. A page that is written between them gets a higher score, and comes
-- (again) at the end; so after the last call the reader has every page as of the head of that call. Another token, or a lower
-- sequence, means that the lane has a new owner or the server was rolled back: pages that the reader has may not exist any more.
local head = redis.call('HGETALL', KEYS[1])
if #head == 0 then
  local left = redis.call('EXISTS', KEYS[2], KEYS[3]) > 0
  return {head, 1, {}, {}, {}, '0', 1, left and 'its head is gone' or '', {}}
end
local stored = redis.call('HMGET', KEYS[1], 'token', 'sequence', 'keys', 'names')
if not stored[1] or not stored[2] then return {head, 1, {}, {}, {}, '0', 1, 'its head has no token or no sequence', {}} end
local function count(what, there, expected)
  if there == tonumber(expected) then return nil end
  return {head, 1, {}, {}, {}, '0', 1, what .. ' has ' .. there .. ' entries, must have ' .. (expected or 'an unknown number'), {}}
end
local short = count('changes', redis.call('ZCARD', KEYS[3]), stored[3]) or count('names', redis.call('HLEN', KEYS[2]), stored[4])
if short then return short end
local whole = stored[1] ~= ARGV[2] or ARGV[3] == '' or tonumber(stored[2]) < tonumber(ARGV[3])
-- Keys that readers do not follow have the score 0, and '(0' leaves them out.
local upto = whole and '0' or ARGV[4]
local names = {}
for id = whole and 1 or tonumber(ARGV[5]), redis.call('HLEN', KEYS[2]) do
  names[#names + 1] = redis.call('HGET', KEYS[2], string.format('%.0f', id))
end
local keys, values, missing, bytes, done = {}, {}, {}, 0, 1
local listed = redis.call('ZRANGEBYSCORE', KEYS[3], '(' .. upto, '+inf', 'WITHSCORES')
for i = 1, #listed, 2 do
  -- Stop only between commits: the next call begins after the score `upto`, and would pass over the other pages of that commit.
  if bytes >= tonumber(ARGV[6]) and listed[i + 1] ~= upto then
    done = 0
    break
  end
  upto = listed[i + 1]
  local value = redis.call('GET', ARGV[1] .. listed[i])
  if value then
    keys[#keys + 1] = listed[i]
    values[#values + 1] = value
    bytes = bytes + #value
  else
    missing[#missing + 1] = listed[i]
  end
end
return {head, whole and 1 or 0, names, keys, values, upto, done, '', missing}
