import { encodeWord } from '../../../lib/words.ts'
import type { GuestChannel } from '../../guest/channel.ts'
import { StepError } from '../../base/step-error.ts'
import type { KeptDisk } from '../driver.ts'
import { identityMs } from '../identity.ts'

/**
 * Makes a restored guest read the serials of its disks again: its kernel still has the serials of the volumes that
 * clones have replaced. Earlier versions of the guest's init do not know `rescan`, but read one disk's serial again on
 * `grow` with the old serial; the size of the file system stays the same.
 * @throws StepError `snapshot_mismatch` (not retried) if the init does not know `grow` either
 */
export async function rescanDisks(
  guest: Pick<GuestChannel, 'request'>,
  disks: readonly Pick<KeptDisk, 'disk' | 'of'>[],
): Promise<void> {
  const replaced = disks.filter(({ disk, of }) => disk.volumeId !== of)
  if (replaced.length === 0) return
  const known = await guest.request('rescan', identityMs).then(() => true, unlessUnknown)
  if (known) return
  for (const { disk, of } of replaced)
    await guest.request(`grow ${of} ${encodeWord(disk.mountPoint)}`, identityMs).catch((cause: unknown) => {
      const message = 'the guest of the snapshot is too old to be given clones of its volumes: take a new snapshot'
      throw new StepError('snapshot_mismatch', message, { cause })
    })
}

/**
 * Returns false if the guest's init does not know the command, otherwise throws the error. The init's answer is the end
 * of the error's message.
 */
function unlessUnknown(error: unknown): false {
  if (error instanceof Error && error.message.endsWith('unknown verb')) return false
  throw error
}
