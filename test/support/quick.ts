/** Selects the test files of `npm run test:quick`: those that need no VM, no database and no other program. */
import { existsSync, globSync, readFileSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'

/** Modules that start systems, databases, agents or VMs. Test files that import one, even indirectly, are not quick. */
const starters =
  /^test\/support\/(system|database|nats|installation|cli|namespaced-host|browser|s3-server|agent\/(agent|hypervisor|net|mesh|snapshot|disk|build|guest|image))\.ts$|^src\/db\/connect\.ts$/

/** Other test files that are not quick: they start programs themselves, or take longer than ten seconds. */
const slow: readonly string[] = [
  'src/control/auth/passwords.test.ts',
  'src/control/http/fuzz.test.ts',
  'test/support/run-report.test.ts',
  'test/system/build.test.ts',
]

const importsOf = new Map<string, readonly string[]>()

function directImports(file: string): readonly string[] {
  const known = importsOf.get(file)
  if (known) return known
  const found = existsSync(file) ? [...readFileSync(file, 'utf8').matchAll(/from '(\.[^']+)'/g)] : []
  const imports = found.map(match => normalize(join(dirname(file), match[1] ?? '')))
  importsOf.set(file, imports)
  return imports
}

function reaches(file: string, isTarget: (file: string) => boolean, visited = new Set<string>()): boolean {
  if (visited.has(file)) return false
  visited.add(file)
  return isTarget(file) || directImports(file).some(one => reaches(one, isTarget, visited))
}

export function quickTests(): string[] {
  const all = globSync(['src/**/*.test.ts', 'test/**/*.test.ts', 'dashboard/src/**/*.test.ts'])
  const isStarter = (file: string) => starters.test(file)
  return all.filter(
    file => !slow.includes(file) && !/anywhere|schemathesis|clients/.test(file) && !reaches(file, isStarter),
  )
}
