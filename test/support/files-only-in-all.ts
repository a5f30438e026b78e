/**
 * Test files that only `npm run test:all` runs (see all-examples.ts). vitest.config.ts reads this list, so this file
 * must not import vitest.
 */
export const filesOnlyInAll: readonly string[] = [
  // The browser: `dashboard` uses the dashboard as a tenant does, and `dashboard-pages` opens each of its pages.
  'test/system/dashboard-buttons.test.ts',
  'test/system/dashboard-details.test.ts',
  'test/system/dashboard-everyday.test.ts',
  'test/system/dashboard-keyboard.test.ts',
  'test/system/dashboard-rare.test.ts',
  'test/system/dashboard-settings.test.ts',
  'test/system/dashboard-templates.test.ts',
  // Moves of volumes with real VMs: `src/agent/volume/move` moves them between two agents, `src/control/moves` and
  // `src/control/migrations` move VMs with volumes between simulated hosts.
  'test/system/volume-copy.test.ts',
  'test/system/volume-moves.test.ts',
  'src/agent/hypervisor/migration-volumes.test.ts',
  // A snapshot of a VM with a read-only volume on another host: `src/agent/snapshot/moves` transfers snapshots with
  // volumes, `src/agent/snapshot/volumes` boots a VM whose volume has changed since the snapshot.
  'src/agent/snapshot/reading-moves.test.ts',
  // Two forks of a VM: `src/agent/hypervisor/contract` forks a VM with a volume with each driver, and
  // `src/agent/snapshot/moves` boots a fork with its own volume.
  'src/agent/snapshot/forks.test.ts',
  // Requests during a wake-up or a move: `scale` wakes a suspended app with many requests at once, `mesh` moves a VM
  // between hosts without breaking a connection, `src/agent/hypervisor/migration` while it serves requests.
  'test/system/wake.test.ts',
  'test/system/moves-under-load.test.ts',
  // A volume whose VMM is killed: `src/agent/hypervisor/contract` and `src/agent/volume/volumes`.
  'test/system/volumes-real.test.ts',
  // Shared volumes: `src/agent/volume/volumes.test.ts` uses them on two agents, `src/agent/disk/rbd-pool.test.ts` with
  // Ceph's commands.
  'test/system/rbd-volumes.test.ts',
  // Backups in a bucket: `database-gvisor` restores from backups, and `src/agent/guest` has the tests of the programs.
  'test/system/database-object-storage.test.ts',
  // A kill of the whole cloud during a build: `src/agent/build/crash` kills the agent.
  'test/system/git-push-crash.test.ts',
  // Kills of random programs under load: `test/system/programs` kills the control plane during a deployment and the
  // agent, `real-vm` kills `mote up` during the start of a VM, `src/bus/nats` crashes the NATS server, and the simulation
  // crashes programs at random.
  'test/chaos/chaos.test.ts',
  // Bugs planted in the product, which test the simulation.
  'test/simulation/mutants.test.ts',
  // Documents of released versions: `docs-site` builds the site with the current documents.
  'test/docs-versions.test.ts',
  // The tutorial of the first app: `quickstart` runs most of its commands, and `source-upload` and `git-push` build,
  // deploy and update an app in VMs.
  'test/tutorials/first-app.test.ts',
  // Programs such as rsync, vim and psql in sessions: `src/control/vm-sessions` and `src/gateway/bastion`.
  'test/sessions/tools.test.ts',
]
