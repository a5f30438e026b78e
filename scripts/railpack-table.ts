/**
 * Compares Mote's build plans for the examples of Railpack with the plans that Railpack's tests expect:
 * `node scripts/railpack-table.ts <checkout>`.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { BuildFault } from '../src/agent/build/fault.ts'
import { planProject } from '../src/agent/build/plan/index.ts'
import { isPlanFile, isPlanPath, type ProjectFiles } from '../src/agent/build/plan/project.ts'
import type { BuildPlan } from '../src/agent/build/plan/types.ts'
import { recipeOf } from '../src/agent/build/recipe.ts'
import { differences } from './railpack/compare.ts'
import { readExpected } from './railpack/expected.ts'

/** Returns whether Mote's build images have the toolchain that the plan needs. */
function hasRecipe(plan: BuildPlan): boolean {
  try {
    recipeOf(plan)
    return true
  } catch (error) {
    if (error instanceof BuildFault) return false
    throw error
  }
}

/** Ignore Dockerfiles, because Railpack ignores them. */
function filesOf(dir: string): ProjectFiles {
  const paths = readdirSync(dir, { recursive: true, withFileTypes: true })
    .filter(entry => entry.isFile() && entry.name !== 'Dockerfile')
    .map(entry => relative(dir, join(entry.parentPath, entry.name)))
    .filter(isPlanPath)
  const texts = paths.filter(isPlanFile).map(path => [path, readFileSync(join(dir, path), 'utf8')] as const)
  return { paths: new Set(paths), texts: new Map(texts) }
}

interface Row {
  readonly example: string
  readonly provider: string
  readonly plan: string
  readonly agrees: boolean
  readonly isBuilt: boolean
  readonly note: string
}

const summary = ({ tools, start, staticDir }: BuildPlan) => {
  const versions = tools.map(({ tool, version }) => `${tool} ${version}`).join(', ')
  const serves = staticDir === null ? `\`${start ?? ''}\`` : `the site ${staticDir}`
  return versions === '' ? serves : `${versions}; ${serves}`
}

function rowOf(root: string, example: string): Row {
  const expected = readExpected(root, example)
  try {
    const plan = planProject(filesOf(join(root, 'examples', example)))
    const found = differences(plan, expected)
    const isBuilt = hasRecipe(plan)
    const note = found.length > 0 ? found.join('; ') : isBuilt ? 'agrees' : 'agrees; needs a Dockerfile'
    return { example, provider: plan.provider, plan: summary(plan), agrees: found.length === 0, isBuilt, note }
  } catch (error) {
    if (!(error instanceof BuildFault)) throw error
    const note = `refused: ${error.message}`
    return { example, provider: expected.provider, plan: '-', agrees: false, isBuilt: false, note }
  }
}

const cell = (text: string) => text.replaceAll('|', '\\|')

/** Returns how many plans of Mote agree with Railpack's, and a Markdown table with a row for each example. */
export function railpackTable(root: string): string {
  const examples = readdirSync(join(root, 'examples')).sort()
  const rows = examples.map(example => rowOf(root, example))
  const agreeing = rows.filter(({ agrees }) => agrees)
  const lines = rows.map(
    ({ example, provider, plan, note }) => `| ${example} | ${provider} | ${cell(plan)} | ${cell(note)} |`,
  )
  const counts = [
    `${agreeing.length} of ${rows.length} plans agree;`,
    `Mote builds ${agreeing.filter(({ isBuilt }) => isBuilt).length} of them,`,
    `the other ${agreeing.filter(({ isBuilt }) => !isBuilt).length} need a Dockerfile.`,
  ]
  const head = "| example | provider | Mote's plan: tools; start command | compared with Railpack's plan |"
  return [counts.join(' '), '', head, '|---|---|---|---|', ...lines, ''].join('\n')
}

if (import.meta.main) {
  const [root] = process.argv.slice(2)
  if (root === undefined) throw new Error('Usage: node scripts/railpack-table.ts <checkout of railwayapp/railpack>')
  process.stdout.write(railpackTable(root))
}
