import { expect, test } from 'vitest'
import { rescanDisks } from './rescan.ts'

const disk = (volumeId: string, of: string) => ({
  of,
  disk: { volumeId, pool: 'local', sizeMib: 1, generation: 1, mountPoint: `/at ${of}`, readOnly: false },
})
/** A guest that knows these verbs; what it was asked. */
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

test('a guest whose disks are the same ones is asked nothing', async () => {
  const guest = guestWith()
  await rescanDisks(guest, [disk('two', 'two')])
  expect(guest.asked).toEqual([])
})

test('a guest of today looks at all of them', async () => {
  const guest = guestWith('rescan', 'grow')
  await rescanDisks(guest, disks)
  expect(guest.asked).toEqual(['rescan'])
})

test('a guest that was booted by an earlier version looks at those that were replaced, by the names that it knows', async () => {
  const guest = guestWith('grow')
  await rescanDisks(guest, disks)
  expect(guest.asked).toEqual(['rescan', 'grow one /at%20one'])
})

test('one that cannot do that either is not tried again, and says what to do', async () => {
  await expect(rescanDisks(guestWith(), disks)).rejects.toMatchObject({
    code: 'snapshot_mismatch',
    message: expect.stringContaining('take a new snapshot'),
  })
})

test('a guest that does not answer is no guest of yesterday', async () => {
  const request = () => Promise.reject(new Error('the guest did not answer "rescan" within 1 ms'))
  await expect(rescanDisks({ request }, disks)).rejects.toThrow('did not answer')
})
