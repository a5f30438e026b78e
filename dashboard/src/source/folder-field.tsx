import { useState } from 'react'
import { api } from '../api/client.ts'
import { plural } from '../ui/format.ts'
import { Around, useControl } from '../ui/form.tsx'

/** Picks a folder of this computer. The command line does the same with `mote launch`. */
export function FolderField({ required = false }: { readonly required?: boolean }) {
  const [count, setCount] = useState(0)
  const hint =
    count > 0
      ? `${plural(count, 'file')}; what .gitignore names and node_modules stay here.`
      : 'A Dockerfile, Node, Python, Go or a static site. Or, in the folder itself: mote launch'
  const { id, attributes } = useControl('folder', hint)
  return (
    <Around id={id} label="Folder" name="folder" hint={hint}>
      <input
        {...attributes}
        type="file"
        required={required}
        {...{ webkitdirectory: '' }}
        onChange={event => setCount(event.currentTarget.files?.length ?? 0)}
        className="block w-full min-w-0 text-sm text-muted file:mr-3 file:h-8 file:rounded-md file:border file:border-line-strong file:bg-surface file:px-3 file:font-medium file:text-text hover:file:border-faint"
      />
    </Around>
  )
}

/** @returns what a deploy names to build these files; undefined: none were picked */
export async function sendFolder(app_name: string, files: readonly File[]): Promise<string | undefined> {
  if (files.length === 0) return undefined
  // Only who sends a folder loads what packs it.
  const { archiveOf } = await import('./archive.ts')
  const { source } = await api.putAppSource({ app_name, body: await archiveOf(files) })
  return source
}
