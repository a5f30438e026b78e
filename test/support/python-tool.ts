/** Programs from PyPI, each in its own virtual environment below .cache. */
import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'

export type PythonTool = { readonly bin: string } | { readonly missing: string }

/**
 * Installs this version of a package unless it is installed. @returns the directory of its programs, or what is missing
 */
export function pythonTool(name: string, version: string): PythonTool {
  const dir = join(import.meta.dirname, '../../.cache', `${name}-${version}`)
  const bin = join(dir, 'bin')
  if (existsSync(join(bin, name))) return { bin }
  const made = spawnSync('python3', ['-m', 'venv', dir], { encoding: 'utf8' })
  if (made.error || made.status !== 0) return { missing: 'Python 3 with venv is missing: apt install python3-venv.' }
  const installed = spawnSync(join(bin, 'pip'), ['install', '--quiet', `${name}==${version}`], { encoding: 'utf8' })
  if (installed.status === 0) return { bin }
  return {
    missing: `${name} ${version} could not be installed from PyPI: ${installed.stderr.trim().split('\n').at(-1)}`,
  }
}
