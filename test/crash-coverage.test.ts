/** Every workflow of the control plane has a crash matrix, and every matrix covers every phase and fault. */
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

/** Tests refer to a workflow through the world they share, or by its constructor. */
const calledIn = (text: string, name: string) =>
  text.includes(`world.workflows.${name.replace(/Workflow$/, '')}`) || text.includes(`${name}(`)

it('there are workflows', () => expect(definitions.length).toBeGreaterThan(5))

it.each(definitions)('$name has a crash matrix over every phase', ({ name }) => {
  const matrix = matrices.find(text => calledIn(text, name))
  expect(matrix, `no test runs the crash matrix of ${name}`).toBeDefined()
  // A matrix may declare phases unreachable for one subject; it must then compare the number of cases over all subjects
  // with the definition.
  if (matrix?.includes('unreachable')) expect(matrix).toMatch(/phases\)\.length \* faults\.length/)
})
