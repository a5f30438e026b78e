import { encodeWord } from '../../guest/words.ts'
import type { GuestChannel } from '../../guest/channel.ts'
import { StepError } from '../../base/step-error.ts'
import type { KeptDisk } from '../driver.ts'
import { identityMs } from '../identity.ts'

/**
 * The guest that goes on from a snapshot asks its disks anew what they are called: its kernel has kept the names of those in
 * whose places clones are. An init of before that verb looks at one disk when it is told that the disk has grown, by the
 * name that it knows; its file system takes what there is.
 * @throws StepError `snapshot_mismatch` (nothing tries again) when that init cannot do so either
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

/** What guest/init.c says to a verb that it does not have, behind the channel's own words. */
function unlessUnknown(error: unknown): false {
  if (error instanceof Error && error.message.endsWith('unknown verb')) return false
  throw error
}
