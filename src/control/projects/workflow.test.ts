/** Crash matrix of the workflow that deletes a project: every fault interrupts every phase. */
import { afterAll, expect, it } from 'vitest'
import { crashMatrix } from '../../../test/support/crash-matrix.ts'
import { startIdentity } from '../../../test/support/identity.ts'
import { statement } from '../../db/db.ts'
import { type ProjectContents, projectWorkflow } from './index.ts'
import { deleteProject } from './deletion.ts'

const makeTable = statement('test.makeContents', 'CREATE TABLE contents (project_id uuid, kind text, dying boolean)')
const add = statement(
  'test.addContents',
  `INSERT INTO contents SELECT $1, kind, false FROM unnest('{outer,outer,inner}'::text[]) AS kind`,
)
const markDying = statement('test.markDying', 'UPDATE contents SET dying = true WHERE project_id = $1 AND kind = $2')
const count = statement<{ n: number }>(
  'test.countContents',
  'SELECT count(*) AS n FROM contents WHERE project_id = $1 AND kind = $2',
)
const bury = statement('test.bury', 'DELETE FROM contents WHERE project_id = $1 AND dying')
const innerDying = statement<{ n: number }>(
  'test.innerDying',
  `SELECT count(*) AS n FROM contents WHERE project_id = $1 AND kind = 'inner' AND dying
     AND EXISTS (SELECT 1 FROM contents WHERE project_id = $1 AND kind = 'outer')`,
)
const remains = statement<{ n: number }>(
  'test.remains',
  `SELECT (SELECT count(*) FROM project WHERE id = $1) + (SELECT count(*) FROM contents WHERE project_id = $1)
     + (SELECT count(*) FROM project_member WHERE project_id = $1) AS n`,
)

const contents = (kind: string): ProjectContents => ({
  name: kind,
  deleteAll: async (tx, projectId) => {
    await tx.run(markDying, [projectId, kind])
  },
  remaining: async (db, projectId) => (await db.one(count, [projectId, kind])).n,
})

// The control plane starts while vitest collects the tests, because the test cases are made from its workflow
// definition.
const api = await startIdentity()
afterAll(async () => api[Symbol.asyncDispose]())
const { db } = api.deps
await db.run(makeTable)
const { token } = await api.person()

const cases = crashMatrix({
  db,
  workflow: projectWorkflow(api.deps, [contents('outer'), contents('inner')]),
  makeSubject: async () => {
    const { body } = await api.call('POST', '/v1/projects', { token, body: { name: 'Doomed' } })
    const id = String(body['id'])
    await db.run(add, [id])
    await db.tx(tx => deleteProject(tx, id))
    return { id }
  },
  advance: async ({ id }) => {
    expect((await db.one(innerDying, [id])).n).toBe(0)
    await db.run(bury, [id])
  },
  check: async ({ id }) => {
    expect((await db.one(remains, [id])).n).toBe(0)
  },
})
it.each(cases)('a project is deleted completely despite a fault: $name', ({ run }) => run())
