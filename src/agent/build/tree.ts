/** Reads the part of a source on which its build plan depends. */
import type { SourceTree } from './git.ts'
import { isPlanFile, isPlanPath, type ProjectFiles } from './plan/project.ts'

const mostPaths = 50_000
/** Limit on the number of files to read, each of which may have 256 KiB. */
const mostTexts = 200

/**
 * Returns all paths of a source, and the texts of its plan files. Files closer to the top are read first, because they
 * matter more for the plan.
 */
export async function readTree(source: Pick<SourceTree, 'list' | 'read'>): Promise<ProjectFiles> {
  const paths = (await source.list()).filter(isPlanPath).slice(0, mostPaths)
  const depth = (path: string) => path.split('/').length
  const texts = new Map<string, string>()
  for (const path of paths
    .filter(isPlanFile)
    .sort((a, b) => depth(a) - depth(b))
    .slice(0, mostTexts)) {
    const text = await source.read(path)
    if (text !== undefined) texts.set(path, text)
  }
  return { paths: new Set(paths), texts }
}
