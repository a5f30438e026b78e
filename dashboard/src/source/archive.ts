/** A folder of this computer as the tar.gz that the API takes as the source of an app (docs/builds.md). */
import ignore, { type Ignore } from 'ignore'
import { ustar } from './tar.ts'

/** Made again by the build, of this computer only, or secret; the command line leaves out the same (src/cli/folder-files.ts). */
const usual = ['.git', 'node_modules/', '.venv/', '__pycache__/', '.DS_Store', '.env', '.env.local']

/** What a file of a folder picker is called, below the folder that was picked. */
export const pathBelow = ({ webkitRelativePath, name }: File) => webkitRelativePath.replace(/^[^/]*\//, '') || name

/** @param files all of a folder, as a file field with `webkitdirectory` has them @throws Error when all are ignored */
export async function archiveOf(files: readonly File[]): Promise<Blob> {
  const wanted = await withoutIgnored(files)
  if (wanted.length === 0) throw new Error('There is nothing in this folder that is not ignored.')
  const entries = wanted.flatMap(file => ustar(pathBelow(file), file))
  const tar = new Blob([...entries, new Uint8Array(1024)])
  return new Response(tar.stream().pipeThrough(new CompressionStream('gzip'))).blob()
}

/** As gitignore(5) has it; the innermost rule that says anything decides. */
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
