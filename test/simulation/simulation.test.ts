/**
 * Random lives of the whole control side.
 *
 * | variable | what it says |
 * |---|---|
 * | `MOTE_SIMULATION_SEED` | only this seed; prints what happened when it fails |
 * | `MOTE_SIMULATION_SEEDS` | so many seeds, however long it takes |
 * | `MOTE_SIMULATION_SECONDS` | otherwise: as many as fit into this (60) |
 * | `MOTE_SIMULATION_FROM`, `MOTE_SIMULATION_STEPS` | the first seed (1), and how long a life is (500) |
 */
import { afterAll, expect, it } from 'vitest'
import { live } from './life.ts'
import { type Stage, simulationStage } from './stage.ts'

const setting = (name: string, otherwise: number) => Number(process.env[`MOTE_SIMULATION_${name}`] ?? otherwise)
const one = setting('SEED', Number.NaN)
const seeds = setting('SEEDS', Number.NaN)
const seconds = setting('SECONDS', 60)
const first = setting('FROM', 1)
const steps = setting('STEPS', 500)
/** While one waits for the database, another computes. */
const atOnce = 3
/** Phases that were run, over all lives. */
const visited = new Set<string>()

const stages: Stage[] = []
const stage = async () => {
  const made = await simulationStage()
  stages.push(made)
  return made
}
afterAll(async () => {
  for (const made of stages) await made[Symbol.asyncDispose]()
})

it('replays exactly', async () => {
  const here = await stage()
  const again = await stage()
  const seed = Number.isNaN(one) ? first : one
  const run = (where: Stage) => live(where, seed, Math.min(steps, 150), visited)
  const [once, second] = await Promise.all([run(here), run(again)])
  expect(second).toEqual(once)
}, 120_000)

it('keeps every invariant, whatever happens', async () => {
  if (!Number.isNaN(one)) return void (await live(await stage(), one, steps, visited))
  const beganMs = performance.now()
  const more = (seed: number) =>
    Number.isNaN(seeds) ? performance.now() - beganMs < seconds * 1000 : seed < first + seeds
  let next = first
  const player = async () => {
    const mine = await stage()
    while (more(next)) await live(mine, next++, steps, visited)
  }
  await Promise.all(Array.from({ length: atOnce }, player))
  const took = (performance.now() - beganMs) / 1000
  console.info(
    `simulation: ${next - first} lives of ${steps} steps in ${took.toFixed(0)} s, phases seen: ${[...visited].sort().join(', ')}`,
  )
  expect(next - first).toBeGreaterThan(0)
}, 7_200_000)
