/**
 * Crash matrix of the build workflow: crashes the workflow before and after each phase, for each way a build can end.
 */
import { afterAll, describe, expect, it } from 'vitest'
import { computeWorld, type TestApp } from '../../../test/support/compute.ts'
import { type CrashCase, crashMatrix, type Fault, faults } from '../../../test/support/crash-matrix.ts'
import { createRunner } from '../../engine/runner.ts'
import { type DeployCall, deploymentWorkflow, removeDeployment } from '../deployments/index.ts'
import { lock } from '../apps/store.ts'
import { buildWorkflow, deployFromSource, newestCommit } from './index.ts'
import { keptLog } from './log.ts'
import { type SimBuilds, simBuilds } from '../../../test/support/control/builds.ts'

const world = await computeWorld({ registry: 'registry.example', buildTimeoutMinutes: 10 })
const { db, deps, bus } = world
const hosts = [await world.addHost(), await world.addHost()]
const sims: SimBuilds[] = []
for (const host of hosts) sims.push(await simBuilds(bus, host.id))
afterAll(async () => {
  for (const sim of sims) await sim.stop()
  await world[Symbol.asyncDispose]()
})
const workflow = buildWorkflow({ ...deps, sourceAuth: async () => undefined })

interface Subject {
  readonly id: string
  readonly deploymentId: string
  readonly app: TestApp
}

const call: DeployCall = {
  project: { id: world.projectId },
  caller: { via: { kind: 'push' } },
  traceparent: '00-1-1-01',
  audit: () => undefined,
}

const push = async (app: TestApp, hash = ''): Promise<Subject> => {
  const { deployment_id: deploymentId } = await db.tx(async tx => {
    const row = await lock(tx, app.projectId, app.name)
    if (!row) throw new Error('no app')
    return deployFromSource(deps, call, tx, row, {
      body: {},
      commit: { ...newestCommit, branch: 'main', hash, isExact: hash !== '' },
    })
  })
  const [build] = await world.rows<{ id: string }>(`SELECT id FROM build WHERE deployment_id = $1`, deploymentId)
  return { id: build!.id, deploymentId, app }
}
const app = async (url = 'https://git.example/team/app') => {
  const made = await world.app()
  await world.rows(`UPDATE app SET git_url = $2 WHERE id = $1`, made.id, url)
  return made
}
const remove = ({ deploymentId }: Subject) => db.tx(tx => removeDeployment(tx, deploymentId))
const move = async () => {
  for (const sim of sims) sim.tick()
  await world.run('vm', 'deployment')
  await world.hostsMove()
}
const buildOf = async ({ id }: Pick<Subject, 'id'>) =>
  (await world.rows<{ state: string; holds: boolean }>(`SELECT state, holds FROM build WHERE id = $1`, id))[0]
const isRunning = async ({ id }: TestApp) =>
  (await world.rows(`SELECT id FROM app WHERE id = $1 AND active_deployment_id IS NOT NULL`, id)).length === 1

/**
 * Expects that nothing is left on any host, that no capacity is reserved, and that the deployment followed the build's
 * result.
 */
const check =
  (states: readonly string[]) =>
  async (subject: Subject, { fault }: { fault: Fault }) => {
    expect(sims.flatMap(sim => [...sim.builds.keys()])).not.toContain(subject.id)
    const build = await buildOf(subject)
    if (build) {
      expect(states).toContain(build.state)
      expect(build.holds).toBe(false)
      if (build.state !== 'cancelled')
        expect(await keptLog(db, subject.id)).toEqual([{ atUs: 1, line: 'the last line' }])
    }
    if (build?.state === 'succeeded' && fault !== 'deletion') await world.until(() => isRunning(subject.app))
    await world.deploymentsEnd(subject.app)
    expect(await world.used()).toEqual({ vcpus: 0, memoryMib: 0, diskMib: 0 })
  }

const ways: Record<string, CrashCase[]> = {
  succeeded: crashMatrix<Subject>({
    db,
    workflow,
    advance: move,
    remove,
    makeSubject: async () => push(await app()),
    check: check(['succeeded', 'cancelled']),
  }),
  failed: crashMatrix<Subject>({
    db,
    workflow,
    advance: move,
    remove,
    makeSubject: async () => push(await app('https://git.example/team/broken')),
    check: check(['failed', 'cancelled']),
    unreachable: { pushing: 'the build fails earlier' },
  }),
}

describe.each(Object.entries(ways))('crash matrix of a build that has %s', (_, cases) => {
  it.each(cases)('$name', ({ run }) => run())
})

it('the crash matrices contain each phase with each fault', () => {
  const reached = new Set(Object.values(ways).flatMap(cases => cases.map(({ phase, fault }) => `${phase} ${fault}`)))
  expect(reached.size).toBe(Object.keys(workflow.phases).length * faults.length)
})

const due = `UPDATE machine SET wake_at = now() WHERE lease IS NULL`
const rounds = async (done: () => Promise<boolean>) => {
  const runner = createRunner({ db, workflows: [workflow, deploymentWorkflow(deps)], log: deps.log, batch: 100_000 })
  for (let round = 0; round < 40; round++) {
    if (await done()) return
    for (const sim of sims) sim.tick()
    await world.rows(due)
    await runner.tickOnce()
    await world.run('vm', 'deployment')
    await world.hostsMove()
  }
  throw new Error('the condition is not met after 40 rounds')
}
const outcomes = async ({ id }: TestApp) =>
  (
    await world.rows<{ outcome: string | null }>(
      `SELECT outcome FROM deployment WHERE app_id = $1 ORDER BY rollout`,
      id,
    )
  ).map(row => row.outcome)

describe('builds of one app', () => {
  it('run one at a time: a newer build supersedes queued ones but not a running one, and the newest version serves in the end', async () => {
    const made = await app()
    const first = await push(made, 'a'.repeat(40))
    await rounds(async () => (await buildOf(first))?.state === 'building')
    const second = await push(made, 'b'.repeat(40))
    const third = await push(made, 'c'.repeat(40))
    expect([await buildOf(second), await buildOf(third)].map(build => build?.state)).toEqual(['superseded', 'queued'])
    let most = 0
    await rounds(async () => {
      const holding = await world.rows(`SELECT id FROM build WHERE app_id = $1 AND holds`, made.id)
      most = Math.max(most, holding.length)
      const [row] = await world.rows<{ active: string }>(
        `SELECT active_deployment_id AS active FROM app WHERE id = $1`,
        made.id,
      )
      return row?.active === third.deploymentId
    })
    expect(most).toBe(1)
    await rounds(async () => (await outcomes(made)).filter(one => one === null).length === 1)
    expect(await outcomes(made)).toEqual(['superseded', 'superseded', null])
    const [live] = await world.rows(
      `SELECT git_commit_hash, git_branch, trigger_source, build_id FROM deployment WHERE id = $1`,
      third.deploymentId,
    )
    expect(live).toEqual({
      git_commit_hash: 'c'.repeat(40),
      git_branch: 'main',
      trigger_source: 'push',
      build_id: third.id,
    })
    await world.deploymentsEnd(made)
  })

  it('run again on another host when their host is lost, while their resources on the lost host stay reserved', async () => {
    const made = await app()
    const build = await push(made)
    await rounds(async () => (await buildOf(build))?.state === 'building')
    const [at] = await world.rows<{ host: string }>(`SELECT host_id AS host FROM build WHERE id = $1`, build.id)
    await world.rows(`UPDATE host SET lost_at = now() WHERE id = $1`, at!.host)
    await rounds(() => isRunning(made))
    const [now] = await world.rows<{ host: string }>(`SELECT host_id AS host FROM build WHERE id = $1`, build.id)
    expect(now?.host).not.toBe(at?.host)
    expect(await world.rows(`SELECT vm_id FROM stray WHERE host_id = $1`, at!.host)).toEqual([{ vm_id: build.id }])
    await world.rows(`DELETE FROM stray`)
    await world.rows(
      `UPDATE host SET lost_at = NULL, used_vcpus = 0, used_memory_mib = 0, used_disk_mib = 0 WHERE id = $1`,
      at!.host,
    )
    await world.deploymentsEnd(made)
  })
})
