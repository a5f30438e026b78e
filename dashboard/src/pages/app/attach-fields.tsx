import type { VolumeWithAttachments } from '@mote/client'
import { Choice, Field } from '../../ui/form.tsx'
import { mib } from '../../ui/format.ts'

/** Volumes of the project that are not attached to the app. */
export const freeFor = (app_id: string, volumes: readonly VolumeWithAttachments[] | undefined) =>
  volumes?.filter(volume => !volume.attachments.some(one => one.app_id === app_id)) ?? []

/** Form fields to select a volume and its mount point. */
export function AttachFields({ free }: { readonly free: readonly VolumeWithAttachments[] }) {
  return (
    <>
      <Choice label="Volume" name="volume_id" required>
        {free.map(volume => (
          <option key={volume.id} value={volume.id}>
            {volume.name} ({mib(volume.size_mib)})
          </option>
        ))}
      </Choice>
      <Field label="Mount point" name="mount_point" mono required defaultValue="/data" spellCheck={false} />
    </>
  )
}
