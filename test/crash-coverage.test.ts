/**
 * Every workflow of the control plane has a crash matrix: a test that crashes it in each phase, before and after each
 * commit.
 */
import { globSync, readFileSync } from 'node:fs'
import { expect, it } from 'vitest'

const definitions = globSync('src/control/**/*.ts')
  .filter(file => !file.endsWith('.test.ts'))
  .flatMap(file =>
    [...readFileSync(file, 'utf8').matchAll(/^export const (\w+Workflow) =/gm)].map(match => ({
      file,
      name: match[1] ?? '',
    })),
  )

const matrices = globSync('src/control/**/*.test.ts')
  .map(file => readFileSync(file, 'utf8'))
  .filter(text => text.includes('crashMatrix'))

/** True if a test uses the workflow, either through the shared test fixture (`world`) or by its constructor. */
const calledIn = (text: string, name: string) =>
  text.includes(`world.workflows.${name.replace(/Workflow$/, '')}`) || text.includes(`${name}(`)

it('the test finds workflows', () => expect(definitions.length).toBeGreaterThan(5))

it.each(definitions)('$name has a crash matrix over every phase', ({ name }) => {
  const matrix = matrices.find(text => calledIn(text, name))
  expect(matrix, `no test runs the crash matrix of ${name}`).toBeDefined()
  // A matrix may declare phases as unreachable for some resources. It must then assert that the cases of all resources
  // together cover every phase with every fault.
  if (matrix?.includes('unreachable')) expect(matrix).toMatch(/phases\)\.length \* faults\.length/)
})
