/** Measures the memory that a control plane needs for each open but idle VM session. */
import { once } from 'node:events'
import { setTimeout as pause } from 'node:timers/promises'
import WebSocket from 'ws'
import { sessionSubprotocol } from '../src/contract/session-stream.ts'
import type { Benchmark } from './benchmark.ts'
import { type Plane, startPlane } from './plane.ts'
import { seedApps, seedServing } from './seed.ts'

/** Number of projects with sessions. More than one is needed, because a project may have at most 200 open sessions. */
const projects = 6
const eachProject = 200
const points = [0, 250, 500, 1000]
const warmUp = 150
/**
 * Milliseconds to wait before memory is measured: longer than a read waits for output, so that each session has begun
 * its second read.
 */
const settleMs = 30_000

interface Place {
  readonly slug: string
  readonly path: string
}

/** Creates a serving app in each of several projects of the user. */
async function places(plane: Plane): Promise<Place[]> {
  await plane.sql.query(
    `WITH made AS (
       INSERT INTO project (id, slug, name, plan, ipv6_prefix)
       SELECT gen_random_uuid(), 'sessions-' || n, 'bench', 'unlimited', 'fd' || substr(md5(n::text), 1, 2) || ':' || substr(md5(n::text), 3, 4) || '::1::/64'
       FROM generate_series(1, $1::int) n RETURNING id)
     INSERT INTO project_member (project_id, account_id, role)
     SELECT made.id, m.account_id, m.role FROM made, (SELECT account_id, role FROM project_member LIMIT 1) m`,
    [projects],
  )
  const { rows } = await plane.sql.query<{ id: string; slug: string }>(
    `SELECT id, slug FROM project WHERE slug LIKE 'sessions-%' ORDER BY slug`,
  )
  for (const { id, slug } of rows) await seedApps(plane.sql, id, 1, slug)
  await seedServing(plane.sql, 'sessions-', 1)
  const jobs = await plane.sql.query<{ slug: string; name: string; job: string }>(
    `SELECT p.slug, a.name, d.job_id AS job FROM app a JOIN project p ON p.id = a.project_id
     JOIN deployment d ON d.id = a.active_deployment_id WHERE p.slug LIKE 'sessions-%' ORDER BY p.slug`,
  )
  return jobs.rows.map(({ slug, name, job }) => ({ slug, path: `/v1/apps/${name}/deployments/${job}/sessions` }))
}

async function openSession(plane: Plane, { slug, path }: Place): Promise<WebSocket> {
  const headers = {
    authorization: `Bearer ${plane.jwt}`,
    'content-type': 'application/json',
    'x-project': slug,
  }
  const body = JSON.stringify({ command: ['sh'], tty: { rows: 24, columns: 80 }, idle_timeout_seconds: 0 })
  const opened = await fetch(`${plane.url}${path}`, { method: 'POST', headers, body })
  const text = await opened.text()
  if (!opened.ok) throw new Error(`opening a session answered ${opened.status}: ${text}`)
  const { id } = JSON.parse(text) as { id: string }
  const url = `${plane.url.replace('http', 'ws')}${path}/${id}/attach`
  const socket = new WebSocket(url, [sessionSubprotocol], { headers, perMessageDeflate: false })
  await once(socket, 'message')
  return socket
}

export const sessions: Benchmark = {
  name: 'sessions',
  goal: '1,000 open idle sessions on one control plane, 32 KiB of memory each',
  how: 'Measures the live objects and buffers of a control plane, after a garbage collection, while 1,000 clients are attached to sessions that print nothing: each has a WebSocket, a request that waits for output, and a position. 150 sessions are opened before, so that the code is loaded. The host is simulated in the same process, so its pending replies count as well.',
  reading:
    'The memory of a session is the growth from 0 to 1,000 sessions divided by 1,000, 30 s after the last one was opened. Resident memory is not a useful measure: it follows the garbage of the start, and was between 140 and 190 MiB at any number of sessions.',
  async run(report) {
    await using plane = await startPlane()
    const all = await places(plane)
    const placeOf = (n: number) => all[Math.floor(n / eachProject)] ?? all[0]
    const sockets: WebSocket[] = []
    const openUntil = async (count: number) => {
      while (sockets.length < count) {
        const place = placeOf(sockets.length)
        if (place) sockets.push(await openSession(plane, place))
      }
    }
    const last = all.at(-1)
    const first = await Promise.all(Array.from({ length: warmUp }, () => (last ? openSession(plane, last) : undefined)))
    for (const socket of first) socket?.terminate()
    const found: { at: number; value: number }[] = []
    for (const at of points) {
      await openUntil(at)
      await pause(settleMs)
      found.push({ at, value: await plane.liveMib() })
    }
    const open = sockets.filter(socket => socket.readyState === WebSocket.OPEN).length
    for (const socket of sockets) socket.terminate()
    report.atLeast('idle sessions that are still open at the end', open, 1000)
    const [some, most] = [found.at(0), found.at(-1)]
    const each = (((most?.value ?? NaN) - (some?.value ?? NaN)) * 1024) / ((most?.at ?? NaN) - (some?.at ?? NaN))
    report.verdict('memory of an idle session, KiB', each, 32)
    report.growth({ what: 'control plane', unit: 'MiB', along: 'sessions', points: found })
  },
}
