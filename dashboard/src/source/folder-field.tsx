import { useState } from 'react'
import { api } from '../api/client.ts'
import { plural } from '../ui/format.ts'
import { Around, useControl } from '../ui/form.tsx'

declare module 'react' {
  interface InputHTMLAttributes<T> {
    /**
     * Makes the file field select a folder instead of files (WICG Entries API). React's types do not have this
     * attribute.
     */
    readonly webkitdirectory?: '' | undefined
  }
}

/** A field to choose a local folder. The CLI equivalent is `mote launch`. */
export function FolderField({ required = false }: { readonly required?: boolean }) {
  const [count, setCount] = useState(0)
  const hint =
    count > 0
      ? `${plural(count, 'file')}; node_modules and files in .gitignore are not uploaded.`
      : 'A Dockerfile, Node, Python, Go or a static site. Or, in the folder itself: mote launch'
  const { id, attributes } = useControl('folder', hint)
  return (
    <Around id={id} label="Folder" name="folder" hint={hint}>
      <input
        {...attributes}
        type="file"
        required={required}
        webkitdirectory=""
        onChange={event => setCount(event.currentTarget.files?.length ?? 0)}
        className="block w-full min-w-0 text-sm text-muted file:mr-3 file:h-8 file:rounded-md file:border file:border-line-strong file:bg-surface file:px-3 file:font-medium file:text-text hover:file:border-faint"
      />
    </Around>
  )
}

/** Uploads the files. @returns the source id for a deploy that builds them; undefined if there are no files */
export async function sendFolder(app_name: string, files: readonly File[]): Promise<string | undefined> {
  if (files.length === 0) return undefined
  // Load the archive code only when it is used.
  const { archiveOf } = await import('./archive.ts')
  const { source } = await api.putAppSource({ app_name, body: await archiveOf(files) })
  return source
}
