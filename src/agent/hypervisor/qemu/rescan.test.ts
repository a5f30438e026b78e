import { expect, test } from 'vitest'
import { rescanDisks } from './rescan.ts'

const disk = (volumeId: string, of: string) => ({
  of,
  disk: { volumeId, pool: 'local', sizeMib: 1, generation: 1, mountPoint: `/at ${of}`, readOnly: false },
})
/** Creates a guest that knows only these commands, and records all requests to it. */
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

test('a guest whose disks were not replaced gets no request', async () => {
  const guest = guestWith()
  await rescanDisks(guest, [disk('two', 'two')])
  expect(guest.asked).toEqual([])
})

test('a guest that knows `rescan` gets one request for all its disks', async () => {
  const guest = guestWith('rescan', 'grow')
  await rescanDisks(guest, disks)
  expect(guest.asked).toEqual(['rescan'])
})

test("a guest that does not know `rescan` gets `grow` for each replaced disk, with the disk's old name", async () => {
  const guest = guestWith('grow')
  await rescanDisks(guest, disks)
  expect(guest.asked).toEqual(['rescan', 'grow one /at%20one'])
})

test('a guest without `rescan` and `grow` is refused without a retry, and the error says what to do', async () => {
  await expect(rescanDisks(guestWith(), disks)).rejects.toMatchObject({
    code: 'snapshot_mismatch',
    message: expect.stringContaining('take a new snapshot'),
  })
})

test('a guest that does not answer `rescan` is not treated as one that does not know it', async () => {
  const request = () => Promise.reject(new Error('the guest did not answer "rescan" within 1 ms'))
  await expect(rescanDisks({ request }, disks)).rejects.toThrow('did not answer')
})
