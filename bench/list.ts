/** Every benchmark, in the order in which they run. */
import { abuse } from './abuse.ts'
import { abuseApi } from './abuse-api.ts'
import { adopt } from './adopt.ts'
import { audit } from './audit.ts'
import { auth } from './auth.ts'
import { heartbeats } from './beats.ts'
import type { Benchmark } from './benchmark.ts'
import { burst } from './burst.ts'
import { chaosBenchmark } from './chaos.ts'
import { create } from './create.ts'
import { dashboard } from './dashboard.ts'
import { database } from './database.ts'
import { deployLatency } from './deploy-latency.ts'
import { deployToAnswer } from './deploy-to-answer.ts'
import { events } from './events.ts'
import { fanOut } from './fan-out.ts'
import { forks } from './forks.ts'
import { gateway } from './gateway.ts'
import { getOne } from './get-one.ts'
import { gvisor } from './gvisor.ts'
import { gvisorNode } from './gvisor-node.ts'
import { image } from './image.ts'
import { listApps } from './list-apps.ts'
import { liveList } from './live-list.ts'
import { loginStorm } from './login-storm.ts'
import { logs } from './logs.ts'
import { memory } from './memory.ts'
import { noisy } from './noisy.ts'
import { placement } from './placement.ts'
import { refresh } from './refresh.ts'
import { refuse } from './refuse.ts'
import { restart } from './restart.ts'
import { scale } from './scale.ts'
import { secondStart } from './second-start.ts'
import { simulation } from './simulation.ts'
import { pgbenchInVm } from './pgbench.ts'
import { sessionBytes } from './session-bytes.ts'
import { sessions } from './sessions.ts'
import { sleepers } from './sleepers.ts'
import { soak } from './soak.ts'
import { start } from './start.ts'
import { vmVerbs } from './vm-verbs.ts'
import { volumeClone } from './volume-clone.ts'
import { gvisorWake, wake } from './wake.ts'

export const benchmarks: readonly Benchmark[] = [
  listApps,
  getOne,
  liveList,
  create,
  events,
  fanOut,
  auth,
  loginStorm,
  refresh,
  restart,
  audit,
  deployLatency,
  deployToAnswer,
  gateway,
  database,
  volumeClone,
  image,
  secondStart,
  burst,
  forks,
  wake,
  gvisorWake,
  gvisor,
  gvisorNode,
  sessions,
  pgbenchInVm,
  sessionBytes,
  sleepers,
  dashboard,
  chaosBenchmark,
  placement,
  scale,
  heartbeats,
  noisy,
  abuse,
  abuseApi,
  refuse,
  simulation,
  memory,
  start,
  soak,
  vmVerbs,
  adopt,
  logs,
]
