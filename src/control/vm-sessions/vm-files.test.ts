/**
 * Tests file access over HTTP. The guest's init runs as a process of the test host, so its files are those of the test
 * host.
 */
import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdir, readdir, readFile, stat, symlink, writeFile } from 'node:fs/promises'
import { request as httpRequest } from 'node:http'
import { connect } from 'node:net'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { testDir } from '../../../test/support/agent/agent.ts'
import type { TestSystem, TestUser } from '../../../test/support/system.ts'
import { type SystemWithGuest, systemWithGuest } from '../../../test/support/system-with-guest.ts'
import { cli } from '../../../test/support/cli.ts'
import { until } from '../../../test/support/wait.ts'
import { createClient, type VmProcess } from '../../client/index.ts'

const skip = process.getuid?.() !== 0
let world: SystemWithGuest
let system: TestSystem
let ann: TestUser
let base: string
let dir: Awaited<ReturnType<typeof testDir>>

beforeAll(async () => {
  if (skip) return
  world = await systemWithGuest()
  ;({ system, ann } = world)
  base = `${world.deployment}/files`
}, 120_000)
afterAll(async () => world?.[Symbol.asyncDispose]())
beforeEach(async () => {
  dir = await testDir()
})
afterEach(async () => dir[Symbol.asyncDispose]())

const at = (name: string) => join(dir.path, name)
const digest = (data: Uint8Array) => createHash('sha256').update(data).digest('hex')
const query = (values: Readonly<Record<string, string>>) => `?${new URLSearchParams(values)}`
const urlOf = (path: string) => `http://127.0.0.1:${system.control.port}${path}`
const authorization = () => ({ authorization: `Bearer ${ann.token}` })

const put = (values: Readonly<Record<string, string>>, body: Buffer<ArrayBuffer>) =>
  fetch(urlOf(`${base}/content${query(values)}`), {
    method: 'PUT',
    headers: { ...authorization(), 'content-type': 'application/octet-stream' },
    body,
  })
const get = (values: Readonly<Record<string, string>>, headers: Readonly<Record<string, string>> = {}) =>
  fetch(urlOf(`${base}/content${query(values)}`), { headers: { ...authorization(), ...headers } })
const bytesOf = async (response: Response) => Buffer.from(await response.arrayBuffer())

const errorOf = async (response: Response) => {
  const body: unknown = await response.json()
  return typeof body === 'object' && body !== null ? Reflect.get(body, 'error') : undefined
}

const openSessions = async () => {
  const { body } = await ann.get(`${world.deployment}/sessions`)
  return body.filter(({ status }: { status: string }) => status === 'running').length
}
const auditOf = async (action: string, path: string) =>
  (await ann.get('/v1/audit-logs?limit=100')).body.items.find(
    (row: { action: string; details: { path?: string } }) => row.action === action && row.details.path === path,
  )

const addViewer = {
  name: 'test.addFileViewer',
  text: `INSERT INTO project_member (project_id, account_id, role)
         SELECT p.id, a.id, 'viewer' FROM project p, account a WHERE p.slug = $1 AND a.email = $2`,
}

describe.skipIf(skip)('files of a VM over HTTP (needs root)', { timeout: 60_000 }, () => {
  it("a file of several MiB is unchanged after an upload and a download; the download is an attachment with the file's name", async () => {
    const content = randomBytes(5 << 20)
    const path = at('new/directory/größe "1".bin')
    const uploaded = await put({ path, mode: '640' }, content)
    expect([uploaded.status, await uploaded.json()]).toEqual([200, { path, size_bytes: content.length }])
    expect(digest(await readFile(path))).toBe(digest(content))
    expect((await stat(path)).mode & 0o7777).toBe(0o640)
    const downloaded = await get({ path })
    expect(downloaded.status).toBe(200)
    expect(Object.fromEntries(downloaded.headers)).toMatchObject({
      'content-type': 'application/octet-stream',
      'content-length': String(content.length),
      'x-content-type-options': 'nosniff',
      'content-security-policy': expect.stringContaining('sandbox'),
      'content-disposition': `attachment; filename="gr??e \\"1\\".bin"; filename*=UTF-8''gr%C3%B6%C3%9Fe%20%221%22.bin`,
      'accept-ranges': 'bytes',
    })
    expect(digest(await bytesOf(downloaded))).toBe(digest(content))
    const written = await auditOf('vm.file_written', path)
    expect(written.details).toMatchObject({ path, size_bytes: content.length })
    expect((await auditOf('vm.file_read', path)).user_id).toBe(written.user_id)
    await until(async () => (await openSessions()) === 0, { what: 'the sessions to end' })
    expect((await ann.get(`${world.deployment}/sessions`)).body).toEqual([])
  })

  it('a range request returns only the range, or the whole file if it has changed since the version in If-Range', async () => {
    const content = randomBytes(300_000)
    await writeFile(at('file'), content)
    const path = at('file')
    const etag = (await get({ path })).headers.get('etag') ?? ''
    for (const [range, from, to] of [
      ['bytes=0-0', 0, 1],
      ['bytes=250000-', 250_000, 300_000],
      ['bytes=-7', 299_993, 300_000],
      ['bytes=10-999999', 10, 300_000],
    ] as const) {
      const part = await get({ path }, { range, 'if-range': etag })
      expect([range, part.status, part.headers.get('content-range')]).toEqual([
        range,
        206,
        `bytes ${from}-${to - 1}/300000`,
      ])
      expect((await bytesOf(part)).equals(content.subarray(from, to))).toBe(true)
    }
    for (const range of ['bytes=9-3', 'bytes=0-1,5-6', 'lines=1-2', 'bytes=-', 'bytes=-0'])
      expect([range, (await get({ path }, { range })).status]).toEqual([range, 200])
    const behind = await get({ path }, { range: 'bytes=300000-' })
    expect([behind.status, behind.headers.get('content-range')]).toEqual([416, 'bytes */300000'])
    expect(await behind.json()).toMatchObject({ code: 'range_not_satisfiable' })
    await writeFile(path, 'another content')
    const changed = await get({ path }, { range: 'bytes=5-6', 'if-range': etag })
    expect([changed.status, (await bytesOf(changed)).toString()]).toEqual([200, 'another content'])
    expect((await bytesOf(await get({ path: '/proc/self/comm' }))).toString()).toMatch(/./)
    await writeFile(at('empty'), '')
    const empty = await get({ path: at('empty') })
    expect([empty.status, (await bytesOf(empty)).length]).toEqual([200, 0])
  })

  it('an interrupted upload leaves the old file unchanged and no temporary file', async () => {
    await writeFile(at('file'), 'old')
    const request = httpRequest(urlOf(`${base}/content${query({ path: at('file') })}`), {
      method: 'PUT',
      headers: { ...authorization(), 'content-type': 'application/octet-stream', 'content-length': '10000000' },
    })
    request.on('error', () => undefined)
    request.write(randomBytes(500_000))
    await until(async () => (await readdir(dir.path)).length === 2, { what: 'the temporary file' })
    request.destroy()
    await until(async () => (await readdir(dir.path)).length === 1, { what: 'the removal of the temporary file' })
    expect(await readFile(at('file'), 'utf8')).toBe('old')
    await until(async () => (await openSessions()) === 0, { what: 'the session to end' })
    expect(await auditOf('vm.file_written', at('file'))).toBeUndefined()
  })

  it('a download ends its session when the client disconnects', async () => {
    await writeFile(at('large'), Buffer.alloc(64 << 20))
    const socket = connect(system.control.port, '127.0.0.1')
    socket.write(
      `GET ${base}/content${query({ path: at('large') })} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${ann.token}\r\n\r\n`,
    )
    await once(socket, 'readable')
    expect(await openSessions()).toBe(1)
    socket.destroy()
    await until(async () => (await openSessions()) === 0, { what: 'the session to end' })
  })

  it('directories can be made, listed, moved and removed; a move replaces an existing file only on request', async () => {
    expect((await ann.post(`${base}/directories`, { path: at('a/b') })).body).toEqual({ status: 'created' })
    await writeFile(at('a/one'), '1')
    await writeFile(at('a/two'), '22')
    await symlink('b', at('a/link'))
    const list = async (values: Readonly<Record<string, string>>) => (await ann.get(`${base}${query(values)}`)).body
    const listed = await list({ path: at('a') })
    expect(listed).toMatchObject({ path: at('a'), complete: true })
    expect(listed.entries).toMatchObject([
      { name: 'b', type: 'directory', mode: '0755', target: null, target_type: null },
      { name: 'link', type: 'symlink', target: 'b', target_type: 'directory' },
      { name: 'one', type: 'file', path: at('a/one'), encoded_path: at('a/one'), size_bytes: 1 },
      { name: 'two', size_bytes: 2 },
    ])
    expect((await list({ path: at(''), depth: '2' })).entries).toHaveLength(5)
    expect((await ann.get(`${base}/stat${query({ path: at('a/two') })}`)).body).toMatchObject(listed.entries[3])
    const refused = await ann.post(`${base}/move`, { path: at('a/one'), to: at('a/two') })
    expect(refused).toMatchObject({
      status: 409,
      body: { error: expect.stringMatching(/two: File exists\. .*replace/) },
    })
    expect((await ann.post(`${base}/move`, { path: at('a/one'), to: at('a/two'), replace: true })).status).toBe(200)
    expect(await readFile(at('a/two'), 'utf8')).toBe('1')
    const kept = await ann.delete(`${base}${query({ path: at('a') })}`)
    expect(kept).toMatchObject({ status: 409, body: { error: expect.stringMatching(/not empty\. .*recursive/) } })
    expect((await ann.delete(`${base}${query({ path: at('a'), recursive: 'true' })}`)).status).toBe(200)
    expect(await readdir(dir.path)).toEqual([])
    const space = (await ann.get(`${base}/space${query({ path: dir.path })}`)).body
    expect(space.size_bytes).toBeGreaterThanOrEqual(space.available_bytes)
    const actions = ['vm.directory_created', 'vm.files_listed', 'vm.file_removed']
    for (const action of actions) expect((await auditOf(action, at('a')))?.action ?? action).toBe(action)
    expect((await auditOf('vm.file_moved', at('a/one'))).details).toMatchObject({ to: at('a/two') })
  })

  it('the list of a directory with too many entries is truncated, and has `complete: false`', async () => {
    await mkdir(at('many'))
    await Promise.all(Array.from({ length: 2_001 }, (_, n) => writeFile(at(`many/${n}`), '')))
    const { body } = await ann.get(`${base}${query({ path: at('many') })}`)
    expect([body.complete, body.entries.length]).toEqual([false, 2_000])
    await until(async () => (await openSessions()) === 0, { what: 'the session to end' })
  })

  it('files with names that are not UTF-8 or contain line breaks can be listed, read, written, moved and removed', async () => {
    const directory = Buffer.from(`${dir.path}/`)
    await writeFile(Buffer.concat([directory, Buffer.from([0x63, 0xff, 0x25, 0x20])]), 'bytes')
    await writeFile(at('two\nlines'), 'lines')
    const { entries } = (await ann.get(`${base}${query({ path: dir.path })}`)).body
    expect(
      entries.map(({ name, encoded_path }: { name: string; encoded_path: string }) => [name, encoded_path]),
    ).toEqual([
      ['c\ufffd% ', `${dir.path}/c%ff%25%20`],
      ['two\nlines', `${dir.path}/two%0alines`],
    ])
    expect((await bytesOf(await get({ encoded_path: `${dir.path}/c%FF%25%20` }))).toString()).toBe('bytes')
    expect((await bytesOf(await get({ path: at('two\nlines') }))).toString()).toBe('lines')
    expect((await put({ encoded_path: `${dir.path}/%fe/%fe` }, Buffer.from('deep'))).status).toBe(200)
    const moved = await ann.post(`${base}/move`, { encoded_path: `${dir.path}/%fe/%fe`, to: at('plain') })
    expect(moved.status).toBe(200)
    expect(await readFile(at('plain'), 'utf8')).toBe('deep')
    const removed = await ann.delete(`${base}${query({ encoded_path: `${dir.path}/%fe` })}`)
    expect(removed.status).toBe(200)
  })

  it('paths are resolved in the VM, and invalid ones are refused with the name of the field', async () => {
    await writeFile(at('file'), 'x')
    expect((await bytesOf(await get({ path: `${dir.path}/a/../../${dir.path}/file` }))).length).toBeGreaterThan(0)
    for (const [values, status, error] of [
      [{}, 400, /path: is required/],
      [{ path: at('file'), encoded_path: at('file') }, 400, /path: is required, or else encoded_path/],
      [{ path: 'file' }, 400, /path: must begin with \//],
      [{ path: '/a\0b' }, 400, /path: has a NUL/],
      [{ encoded_path: '/a%00b' }, 400, /encoded_path: must not contain NUL/],
      [{ encoded_path: '/a%zz' }, 400, /encoded_path: has a percent sign/],
      [{ path: `/${'x'.repeat(4_999)}` }, 400, /path must have at most 4095/],
      [{ path: `/${'ß'.repeat(2_200)}` }, 400, /path: must have at most 4095 bytes/],
      [{ path: `/${'x'.repeat(300)}` }, 409, /File ?name too long/],
      [{ path: at('none') }, 404, /none: No such file or directory/],
      [{ path: dir.path }, 409, /Is a directory/],
      [{ path: '/dev/zero' }, 409, /Not a regular file/],
      [{ path: at('file'), user: 'nobody-here' }, 409, /no such user/],
      [{ path: at('file'), vm_id: '0197e0f3-7c1a-7d7e-8f00-3f6d0c4f2a10' }, 400, /vm_id/],
    ] as const) {
      const answer = await get(values)
      expect([values, answer.status, await errorOf(answer)]).toEqual([values, status, expect.stringMatching(error)])
    }
    expect(await ann.delete(`${base}?path=/../&recursive=true`)).toMatchObject({ status: 400 })
    expect((await put({ path: '/proc/nothing/here' }, randomBytes(3 << 20))).status).toBe(404)
    expect((await put({ path: dir.path }, randomBytes(3 << 20))).status).toBe(409)
    const denied = await put({ path: '/root/x', user: '65534' }, Buffer.from('x'))
    expect([denied.status, await errorOf(denied)]).toEqual([409, expect.stringMatching(/Permission denied\. .*root/)])
  })

  it('another tenant, a viewer, and tokens without the scope `exec` cannot access files', async () => {
    await writeFile(at('file'), 'x')
    const bob = await system.user()
    const viewer = await system.user()
    await system.database.db.run(addViewer, [ann.project, viewer.email])
    const tokenWith = async (scopes: readonly string[]) =>
      (await ann.post('/v1/auth/tokens', { name: scopes.join(), scopes })).body.token
    const [reader, deployer, runner] = await Promise.all([['read'], ['deploy'], ['read', 'exec']].map(tokenWith))
    const path = at('file')
    const requests: readonly (readonly [string, string])[] = [
      ['GET', `${base}${query({ path: dir.path })}`],
      ['GET', `${base}/stat${query({ path })}`],
      ['GET', `${base}/space${query({ path })}`],
      ['GET', `${base}/content${query({ path })}`],
      ['PUT', `${base}/content${query({ path })}`],
      ['DELETE', `${base}${query({ path })}`],
      ['POST', `${base}/directories`],
      ['POST', `${base}/move`],
    ]
    for (const [token, project, expected] of [
      [bob.token, bob.project, 404],
      [bob.token, ann.project, 404],
      [viewer.token, ann.project, 403],
      [reader, ann.project, 403],
      [deployer, ann.project, 403],
    ] as const)
      for (const [method, url] of requests) {
        const headers = { authorization: `Bearer ${token}`, 'x-project': project, 'content-type': 'application/json' }
        const body = method === 'POST' ? JSON.stringify({ path, to: at('to') }) : 'x'
        const answer = await fetch(urlOf(url), { method, headers, ...(method === 'GET' ? {} : { body }) })
        expect([method, url, answer.status]).toEqual([method, url, expected])
      }
    expect(await readFile(path, 'utf8')).toBe('x')
    const { status } = await fetch(urlOf(requests[3]?.[1] ?? ''), { headers: { authorization: `Bearer ${runner}` } })
    expect(status).toBe(200)
  })

  it('the processes of the VM are listed with CPU time and memory, and `mote top` shows them', async () => {
    const url = urlOf(base.replace(/files$/, 'processes'))
    const answer = await fetch(url, { headers: { authorization: `Bearer ${ann.token}` } })
    expect(answer.status).toBe(200)
    const { processes } = (await answer.json()) as { processes: VmProcess[] }
    // The guest's init runs on the test host, so it lists the processes of the test host.
    const mine = processes.find(({ pid }) => pid === process.pid)
    expect(mine).toMatchObject({ user_id: 0, parent_pid: process.ppid, command: expect.stringMatching(/node|vitest/) })
    expect(mine?.cpu_ms).toBeGreaterThan(100)
    expect(mine?.memory_kib).toBeGreaterThan(10_000)
    const env = { MOTE_URL: urlOf(''), MOTE_TOKEN: ann.token ?? '' }
    const { code, out } = await cli({ home: dir.path, env }).run(['top', '--app', 'web'])
    expect([code, out]).toEqual([0, expect.stringMatching(/PID +USER +STATE +CPU S +MEMORY +COMMAND\n(.*\n)*.*init/)])
  })

  it('the typed client reads and writes files', async () => {
    const client = createClient({ baseUrl: urlOf(''), token: () => ann.token })
    const [, , , app_name = '', , job_id = ''] = base.split('/')
    const place = { app_name, job_id, query: { path: at('file') } }
    await client.writeVmFile({ app_name, job_id, query: { path: at('file') }, body: 'from the client' })
    expect(await (await client.readVmFile(place)).text()).toBe('from the client')
    expect(await (await client.readVmFile(place, { range: 'bytes=5-7' })).text()).toBe('the')
    await expect(client.readVmFile({ app_name, job_id, query: { path: at('none') } })).rejects.toThrow('none: No such')
  })
})
