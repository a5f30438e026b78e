/** A malicious git server cannot make git connect to other hosts. */
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { run } from '../../lib/exec.ts'
import { testDir } from '../../../test/support/agent/agent.ts'
import { BuildFault } from './fault.ts'
import { fetchSource } from './git.ts'
import { gitWorker } from '../../../test/support/agent/build.ts'

const limits = { maxBytes: 1 << 26, timeoutMs: 30_000, signal: new AbortController().signal }
const commit = '1'.repeat(40)

/**
 * Starts a "dumb" HTTP repository (gitprotocol-http(5)) without objects, whose alternates file points to another host.
 */
async function hostile() {
  let strays = 0
  const victim = createServer((_, response) => {
    strays++
    response.writeHead(404).end()
  }).listen(0, '127.0.0.1')
  await once(victim, 'listening')
  const elsewhere = `http://127.0.0.1:${(victim.address() as AddressInfo).port}/x.git/objects\n`
  const files: Readonly<Record<string, string>> = {
    '/x.git/info/refs': `${commit}\trefs/heads/main\n`,
    '/x.git/HEAD': 'ref: refs/heads/main\n',
    '/x.git/objects/info/http-alternates': elsewhere,
    '/x.git/objects/info/alternates': elsewhere,
    '/x.git/objects/info/packs': '',
  }
  const asked: string[] = []
  const server = createServer((request, response) => {
    const path = (request.url ?? '').replace(/\?.*/, '')
    asked.push(path)
    const text = files[path]
    if (text === undefined) response.writeHead(404).end()
    else response.writeHead(200, { 'content-type': 'text/plain' }).end(text)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/x.git`,
    asked,
    strays: () => strays,
    [Symbol.dispose]: () => void [server.close(), victim.close()],
  }
}

test('git does not follow alternates to another host', async () => {
  using server = await hostile()
  await using dir = await testDir()
  using worker = await gitWorker(dir.path, limits.signal)
  const source = { url: server.url, branch: 'main', commit: '', allowPrivate: true }
  await expect(fetchSource(source, worker, limits)).rejects.toBeInstanceOf(BuildFault)
  expect(server.asked).toContain('/x.git/info/refs')
  expect(server.strays()).toBe(0)
  // Counter-check: a git that follows redirects connects to the other host.
  const args = ['-c', 'http.followRedirects=true', 'clone', '--quiet', server.url, join(dir.path, 'led')]
  await expect(run('git', args)).rejects.toThrow()
  expect(server.strays()).toBeGreaterThan(0)
})
