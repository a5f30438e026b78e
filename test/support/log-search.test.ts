import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { newPat } from '../../src/control/auth/credentials.ts'
import { searchLogs } from './log-search.ts'

let dir: string
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'mote-logs-'))
  const secrets = [
    ['password', 'correct staple 7 horses'],
    ['token', newPat()],
  ]
  await writeFile(join(dir, 'secrets.1.jsonl'), secrets.map(secret => `${JSON.stringify(secret)}\n`).join(''))
})
afterAll(() => rm(dir, { recursive: true, force: true }))

const search = async (...lines: readonly string[]) => {
  await writeFile(join(dir, 'log.1.jsonl'), lines.map(line => `${line}\n`).join(''))
  return searchLogs(dir)
}

it('the search for secrets in logs finds nothing in harmless lines', async () => {
  expect(await search('{"msg":"request","path":"/v1/apps"}', '{"msg":"Bearer"}')).toEqual({
    lines: 2,
    secrets: 1,
    leaks: [],
  })
})

it.each([
  ['a recorded password', '{"body":"correct staple 7 horses"}'],
  ['an access token that was not recorded', `{"msg":"${newPat()}"}`],
  ['a session token', `{"msg":"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTYifQ.${'x'.repeat(43)}"}`],
  ['a password hash', '{"msg":"$argon2id$v=19$m=19456"}'],
  ['a credential', `{"authorization":"Bearer ${'y'.repeat(40)}"}`],
])('the search for secrets in logs finds %s, and masks it', async (_what, line) => {
  const { leaks } = await search('{"msg":"before"}', line, '{"msg":"after"}', line)
  expect(leaks.length).toBeGreaterThanOrEqual(2)
  expect(leaks.join()).not.toMatch(/staple|svc_pat_.{20}|x{43}|19456|y{40}|before|after/)
})
