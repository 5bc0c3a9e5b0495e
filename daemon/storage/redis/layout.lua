-- Which layout is in force in a namespace.
-- KEYS: the namespace's `layouts`. ARGV: what to do, digest, text, and
--   propose   ms of silence after which a layout that was in force before may return
--   use       nothing: the layout is in force from now on
--   restore   the generation under which a lane was found: it is noted where it is the greatest
-- Answers: generation, digest and text of the layout in force.
--
-- A layout that was never seen in this namespace comes into force when it is proposed. One that was superseded does not: a worker
-- of an earlier configuration that restarts in the middle of a roll-out must not take the others back. Once nobody has proposed
-- the layout in force for a while, all workers of it are gone, and the other one is what is deployed.
local key = KEYS[1]
local act, digest, text, number = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])

local function in_force()
  return tonumber(redis.call('HGET', key, 'generation') or '0')
end

local function set(generation)
  redis.call('HSET', key, 'generation', generation, 'digest:' .. generation, digest, 'text:' .. generation, text,
    'known:' .. digest, generation)
end

local generation = in_force()
local current = redis.call('HGET', key, 'digest:' .. generation)
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
-- What an operator puts in force counts as proposed, too: the next proposal of another one must not find it silent.
if act ~= 'restore' then redis.call('HSET', key, 'proposed:' .. digest, string.format('%.0f', now)) end
if act == 'propose' then
  if current ~= digest then
    local is_new = redis.call('HEXISTS', key, 'known:' .. digest) == 0
    local last = current and redis.call('HGET', key, 'proposed:' .. current)
    if is_new or not last or now - tonumber(last) > number then set(generation + 1) end
  end
elseif act == 'use' then
  if current ~= digest then set(generation + 1) end
elseif number > generation then
  set(number)
end
generation = in_force()
return {tostring(generation), redis.call('HGET', key, 'digest:' .. generation), redis.call('HGET', key, 'text:' .. generation)}
