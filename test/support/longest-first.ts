import { BaseSequencer, type TestSpecification } from 'vitest/node'

/** Test files that take more than 25 s on two cores, in `npm test` or in `npm run test:all`, roughly the longest first. */
export const longest = [
  'test/system/database-gvisor.test.ts',
  'test/system/dashboard.test.ts',
  'src/agent/hypervisor/contract.test.ts',
  'test/stacks/stacks.test.ts',
  'src/control/databases/verbs.test.ts',
  'src/control/databases/workflow.test.ts',
  'test/system/wake.test.ts',
  'test/system/cli-config.test.ts',
  'test/tutorials/first-app.test.ts',
  'test/system/cli-commands.test.ts',
  'test/system/scale.test.ts',
  'test/system/dashboard-pages.test.ts',
  'src/agent/hypervisor/gvisor/real.test.ts',
  'test/system/mesh.test.ts',
  'src/agent/hypervisor/migration.test.ts',
  'test/statuses.test.ts',
  'src/agent/image/image.test.ts',
  'test/tutorials/worker-and-cron.test.ts',
  'src/agent/build/real-apps.test.ts',
  'test/tutorials/database.test.ts',
  'src/agent/build/toolchain.test.ts',
  'test/system/templates.test.ts',
  'test/system/database.test.ts',
  'src/control/deployments/verbs.test.ts',
  'test/tutorials/three-hosts.test.ts',
  'test/tutorials/own-apps.test.ts',
  'test/system/database-object-storage.test.ts',
  'test/system/source-upload.test.ts',
] as const

/** Runs the longest test files first, so that the run does not end with a long one while other processes are idle. */
export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    return (await super.sort(files)).toSorted((a, b) => rank(a) - rank(b))
  }
}

function rank({ moduleId }: TestSpecification): number {
  const at = longest.findIndex(name => moduleId.endsWith(`/${name}`))
  return at < 0 ? longest.length : at
}
