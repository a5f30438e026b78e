import { expect, it } from 'vitest'
import { fakeSessions } from './sessions.ts'

it('a directory watch whose client does not read reports one overflow, and then later changes', async () => {
  const sessions = fakeSessions()
  const run = async (sessionId: string, command: readonly string[]) => {
    await sessions.open({ sessionId, command, fileTool: true })
    if (command[0] !== 'watch') await sessions.remove(sessionId)
  }
  await run('w', ['watch', '/tmp', '0'])
  const name = `/tmp/${'n'.repeat(200)}`
  for (let n = 0; n < 1_000; n++) {
    await run('t', ['mkdir', name])
    await run('t', ['remove', name])
  }
  let text = ''
  const watch = sessions.attach('w', { stdout: 0, stderr: 0 }, ({ offset, data }) => {
    text += data.toString()
    watch.ack('stdout', offset + data.length)
  })
  await new Promise(setImmediate)
  expect(text.length).toBeLessThan((1 << 18) + 1_000)
  expect(text.split('\n').filter(line => line === 'overflow')).toHaveLength(1)
  await run('t', ['mkdir', '/tmp/after'])
  expect(text.endsWith('\noverflow\ncreated /tmp/after\n')).toBe(true)
  await sessions.signal('w', 1)
  await run('t', ['mkdir', '/tmp/unseen'])
  expect(await watch.ended).toMatchObject({ reason: 'signaled', code: 1 })
  expect(text).not.toContain('unseen')
})
