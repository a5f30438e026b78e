// Not repeated on the distribution's PostgreSQL: tests the API, not the database.
/**
 * Tests that the result does not depend on the order and repetition of webhook deliveries, and that commit statuses
 * are reported.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Identity } from '../../../test/support/identity.ts'
import { statement } from '../../db/db.ts'
import { newId } from '../../lib/ids.ts'
import { inParallel, owner } from '../../../test/support/control/billing.ts'
import { createSourceHost, scmReports } from './index.ts'
import {
  commitOf,
  deliver,
  type FakeHost,
  push,
  type ScmWorld,
  scmWorld,
  type Sent,
} from '../../../test/support/control/scm.ts'
import { runsAll } from '../../../test/support/all-examples.ts'

let world: ScmWorld
let host: FakeHost
let api: Identity
beforeAll(async () => {
  world = await scmWorld()
  ;({ host, api } = world)
})
afterAll(() => world[Symbol.asyncDispose]())

const sql = <Row>(name: string, text: string) => statement<Row>(`test.scm.${name}`, text)

describe('500 webhook deliveries, sent twice and in random order', () => {
  const state = {
    pushes: sql('pushes', `SELECT branch, commit_hash FROM scm_push WHERE app_id = $1`),
    installation: sql('installation', `SELECT login, state FROM scm_installation WHERE id = $1`),
    repository: sql('repository', `SELECT full_name, is_deleted FROM scm_repository WHERE id = $1`),
    app: sql('app', `SELECT scm_repo_full_name, git_url FROM app WHERE id = $1`),
    previews: sql(
      'previews',
      `SELECT number, v.state, a.want FROM scm_preview v LEFT JOIN app a ON a.id = v.preview_app_id WHERE v.app_id = $1 ORDER BY number`,
    ),
  }

  /** Returns deliveries of pushes, renames, suspensions and pull requests, whose times are one second apart. */
  function story(repoId: number, installationId: number, count: number): Sent[] {
    const at = (second: number) => 1_700_000_000 + second
    return Array.from({ length: count }, (_, n): Sent => {
      const id = newId()
      if (n % 5 === 0)
        return {
          id,
          event: 'repository',
          payload: {
            action: 'renamed',
            repository: {
              id: repoId,
              full_name: `team/app-${n}`,
              clone_url: `https://github.com/team/app-${n}.git`,
              updated_at: new Date(at(n) * 1000).toISOString(),
            },
          },
        }
      if (n % 5 === 1)
        return {
          id,
          event: 'installation',
          payload: {
            action: n % 10 === 1 ? 'unsuspend' : 'new_permissions_accepted',
            installation: { id: installationId, updated_at: at(n), account: { login: `org-${n}`, type: 'User' } },
          },
        }
      if (n % 5 === 2) {
        const open = n % 20 < 10
        const updated_at = new Date(at(n) * 1000).toISOString()
        return {
          id,
          event: 'pull_request',
          payload: {
            action: open ? 'opened' : 'closed',
            number: 1 + (n % 4),
            repository: { id: repoId },
            pull_request: {
              state: open ? 'open' : 'closed',
              title: 't',
              updated_at,
              head: { ref: `topic-${n % 4}`, sha: commitOf(n), repo: { id: repoId } },
            },
          },
        }
      }
      return { id, event: 'push', payload: push(repoId, commitOf(n), at(n)) }
    })
  }

  // Only partly in `npm test`: 150 deliveries cover 500, because each kind occurs thirty times.
  const stories = runsAll ? 500 : 150

  async function outcome(deliveries: (all: Sent[]) => Sent[], width: number) {
    const person = await owner(api)
    const installationId = await world.install(person)
    const app = await world.appFor(person, installationId)
    const sent = deliveries(story(app.repoId, installationId, stories))
    const answers = await inParallel(sent, width, one => deliver(api, one))
    expect(answers.filter(one => one.status !== 200).map(one => one.body)).toEqual([])
    const { db } = api.deps
    const [newest] = await world.deploymentsOf(person, app.name)
    return {
      sent: sent.length,
      pushes: await db.rows(state.pushes, [app.id]),
      installation: await db.rows(state.installation, [installationId]),
      repository: await db.rows(state.repository, [app.repoId]),
      app: await db.rows(state.app, [app.id]),
      previews: await db.rows(state.previews, [app.id]),
      newest: newest?.git_commit_hash,
      waiting: (await world.deploymentsOf(person, app.name)).filter(one => one.status === 'building').length,
    }
  }

  it('have the same result as if they were sent once and in order', async () => {
    const inOrder = await outcome(all => all, 1)
    const shuffled = await outcome(all => {
      const [seed = 0] = [20_261_121]
      const twice = [...all, ...all]
      let random = seed
      for (let at = twice.length - 1; at > 0; at--) {
        random = (random * 1_103_515_245 + 12_345) % 2 ** 31
        const other = random % (at + 1)
        ;[twice[at], twice[other]] = [twice[other]!, twice[at]!]
      }
      return twice
    }, 8)
    expect(shuffled.sent).toBe(2 * stories)
    expect({ ...shuffled, sent: 0 }).toEqual({ ...inOrder, sent: 0 })
    expect(inOrder).toMatchObject({ newest: commitOf(stories - 1), waiting: 1 })
  }, 180_000)
})

it('the source host gets the deployment status of each commit, even after an outage of the source host', async () => {
  const person = await owner(api)
  const app = await world.appFor(person, await world.install(person))
  await deliver(api, { id: newId(), event: 'push', payload: push(app.repoId, commitOf(77), 1_900_000_000) })
  const { deps } = api
  const sweep = scmReports({ ...deps, log: deps.log }, createSourceHost(deps))
  const reported = () => host.statuses.filter(one => one.path.endsWith(commitOf(77))).map(one => one.body.state)
  const run = () => sweep.run({ now: new Date(), signal: new AbortController().signal })
  host.isDown = true
  await run()
  host.isDown = false
  expect(reported()).toEqual([])
  await deps.db.run(sql('due', `UPDATE scm_report SET due_at = now()`))
  api.clock.advance(60_000)
  const fresh = scmReports(deps, createSourceHost(deps))
  await fresh.run({ now: new Date(), signal: new AbortController().signal })
  expect(reported()).toEqual(['pending'])
  await run()
  expect(reported()).toEqual(['pending'])
  await deps.db.run(
    sql(
      'end',
      `UPDATE deployment SET outcome = 'failed', error_message = 'npm ended', updated_at = now() WHERE app_id = $1`,
    ),
    [app.id],
  )
  await fresh.run({ now: new Date(), signal: new AbortController().signal })
  const last = host.statuses.findLast(one => one.path.endsWith(commitOf(77)))
  expect(last?.body).toMatchObject({ state: 'failure', description: 'npm ended', context: `mote/${app.name}` })
})
