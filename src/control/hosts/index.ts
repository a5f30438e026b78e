export { agentClient } from './agent.ts'
export { type LiveStats, createLiveStats } from './live.ts'
export {
  abandon,
  cordon,
  find as findHost,
  type HostRow,
  list as listHosts,
  lock as lockHost,
  lose as loseHost,
  release,
  remove as removeHost,
  reserve,
  settle as settleStrays,
  silent as silentHosts,
  suspect as suspectHost,
  touch as touchHosts,
  upsert as recordBeat,
} from './store.ts'
