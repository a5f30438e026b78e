import { expect, test } from 'vitest'
import { rescanDisks } from './rescan.ts'

const disk = (volumeId: string, of: string) => ({
  of,
  disk: { volumeId, pool: 'local', sizeMib: 1, generation: 1, mountPoint: `/at ${of}`, readOnly: false },
})
/** Creates a guest that supports these commands and records all requests. */
function guestWith(...verbs: readonly string[]) {
  const asked: string[] = []
  const request = async (line: string) => {
    asked.push(line)
    if (verbs.includes(line.split(' ')[0] ?? '')) return ''
    throw new Error('the guest answered: unknown verb')
  }
  return { asked, request }
}
const disks = [disk('clone', 'one'), disk('two', 'two')]

test('a guest with unchanged disks gets no request', async () => {
  const guest = guestWith()
  await rescanDisks(guest, [disk('two', 'two')])
  expect(guest.asked).toEqual([])
})

test('a current guest rescans all disks', async () => {
  const guest = guestWith('rescan', 'grow')
  await rescanDisks(guest, disks)
  expect(guest.asked).toEqual(['rescan'])
})

test('an older guest re-reads the replaced disks by their old names', async () => {
  const guest = guestWith('grow')
  await rescanDisks(guest, disks)
  expect(guest.asked).toEqual(['rescan', 'grow one /at%20one'])
})

test('a guest that supports neither is refused without a retry, and the error says what to do', async () => {
  await expect(rescanDisks(guestWith(), disks)).rejects.toMatchObject({
    code: 'snapshot_mismatch',
    message: expect.stringContaining('take a new snapshot'),
  })
})

test('a guest that does not answer is not treated as an older one', async () => {
  const request = () => Promise.reject(new Error('the guest did not answer "rescan" within 1 ms'))
  await expect(rescanDisks({ request }, disks)).rejects.toThrow('did not answer')
})
