/** Packs a local folder as the tar.gz that the API accepts as the source of an app (docs/builds.md). */
import ignore, { type Ignore } from 'ignore'
import { ustar } from './tar.ts'

/** Excluded files: generated, machine-specific or secret ones. The CLI excludes the same (src/cli/folder-files.ts). */
const usual = ['.git', 'node_modules/', '.venv/', '__pycache__/', '.DS_Store', '.env', '.env.local']

/** Path of a picked file relative to the picked folder. */
export const pathBelow = ({ webkitRelativePath, name }: File) => webkitRelativePath.replace(/^[^/]*\//, '') || name

/**
 * Packs the files that are not ignored.
 * @param files all files of a folder, from a file field with `webkitdirectory`
 * @throws Error if all are ignored
 */
export async function archiveOf(files: readonly File[]): Promise<Blob> {
  const wanted = await withoutIgnored(files)
  if (wanted.length === 0) throw new Error('The folder is empty, or all its files are ignored.')
  const entries = wanted.flatMap(file => ustar(pathBelow(file), file))
  const tar = new Blob([...entries, new Uint8Array(1024)])
  return new Response(tar.stream().pipeThrough(new CompressionStream('gzip'))).blob()
}

/** Removes ignored files, by the rules of gitignore(5): the innermost matching rule decides. */
async function withoutIgnored(files: readonly File[]): Promise<File[]> {
  const rules: { readonly base: string; readonly matcher: Ignore }[] = [{ base: '', matcher: ignore().add(usual) }]
  const lists = files.filter(file => /(^|\/)\.gitignore$/.test(pathBelow(file)))
  for (const file of lists.toSorted((a, b) => pathBelow(a).length - pathBelow(b).length))
    rules.push({ base: pathBelow(file).replace(/\.gitignore$/, ''), matcher: ignore().add(await file.text()) })
  const isIgnored = (path: string) => {
    let ignored = false
    for (const { base, matcher } of rules) {
      if (!path.startsWith(base)) continue
      const verdict = matcher.test(path.slice(base.length))
      if (verdict.ignored || verdict.unignored) ignored = verdict.ignored
    }
    return ignored
  }
  return files.filter(file => !isIgnored(pathBelow(file)))
}
