/** Read requests as TanStack Query options: one key and one request per resource, all in the selected project. */
import { keepPreviousData, QueryClient, queryOptions } from '@tanstack/react-query'
import { ApiFailure, type AppHistory, everyItem } from '@mote/client'
import { api } from './client.ts'
import { currentProject } from './project.ts'

/** Retries only network errors and unavailable servers; any other error is the server's decision. */
const isWorthRetrying = (failures: number, error: Error) =>
  failures < 2 && (!(error instanceof ApiFailure) || error.status >= 502)

export const queryClient = new QueryClient({
  defaultOptions: {
    queries: { staleTime: 2_000, retry: isWorthRetrying, refetchOnWindowFocus: true },
    mutations: { retry: false },
  },
})

interface VmPlace {
  readonly app_name: string
  readonly job_id: string
  readonly vm_id: string
}

/** Begins the query key with the selected project, so that the cache never returns data of another project. */
const inProject = (...key: readonly unknown[]) => ['project', currentProject.get(), ...key] as const

async function all<T>(items: AsyncGenerator<T>): Promise<readonly T[]> {
  const found: T[] = []
  for await (const item of items) found.push(item)
  return found
}

/** Number of runs in an app's list; limited, because the list is read every two seconds while a run is in progress. */
export const mostRuns = 100

export const queries = {
  me: () => queryOptions({ queryKey: ['me'], queryFn: ({ signal }) => api.getMe({ signal }), staleTime: 60_000 }),
  projects: () =>
    queryOptions({
      queryKey: ['projects'],
      queryFn: ({ signal }) => api.listProjects({}, { signal }),
      staleTime: 30_000,
    }),
  invitations: () =>
    queryOptions({ queryKey: ['invitations'], queryFn: ({ signal }) => api.listInvitations({}, { signal }) }),
  members: (slug: string) =>
    queryOptions({
      queryKey: ['members', slug],
      queryFn: ({ signal }) => api.listMembers({ tenant_slug: slug }, { signal }),
    }),
  tokens: () => queryOptions({ queryKey: ['tokens'], queryFn: ({ signal }) => api.listTokens({}, { signal }) }),
  sessions: () => queryOptions({ queryKey: ['sessions'], queryFn: ({ signal }) => api.listSessions({}, { signal }) }),

  apps: () =>
    queryOptions({
      queryKey: inProject('apps'),
      queryFn: ({ signal }) => all(everyItem(query => api.listApps({ query }, { signal }))),
      refetchInterval: 15_000,
    }),
  app: (app_name: string) =>
    queryOptions({
      queryKey: inProject('app', app_name),
      queryFn: ({ signal }) => api.getApp({ app_name }, { signal }),
      refetchInterval: 10_000,
    }),
  active: () =>
    queryOptions({
      queryKey: inProject('active'),
      queryFn: ({ signal }) => all(everyItem(query => api.listActiveDeployments({ query }, { signal }))),
      refetchInterval: 5_000,
    }),
  files: ({ app_name, job_id, vm_id }: VmPlace, encoded_path: string) =>
    queryOptions({
      queryKey: inProject('files', app_name, vm_id, encoded_path),
      queryFn: ({ signal }) => api.listVmFiles({ app_name, job_id, query: { encoded_path, vm_id } }, { signal }),
    }),
  fileSpace: ({ app_name, job_id, vm_id }: VmPlace, encoded_path: string) =>
    queryOptions({
      queryKey: inProject('files', app_name, vm_id, encoded_path, 'space'),
      queryFn: ({ signal }) => api.getVmSpace({ app_name, job_id, query: { encoded_path, vm_id } }, { signal }),
    }),
  jobs: (app_name: string) =>
    queryOptions({
      queryKey: inProject('jobs', app_name),
      queryFn: ({ signal }) => api.listJobs({ app_name }, { signal }),
      refetchInterval: 10_000,
    }),
  runs: (app_name: string) =>
    queryOptions({
      queryKey: inProject('runs', app_name),
      queryFn: ({ signal }) => api.listRuns({ app_name, query: { limit: mostRuns } }, { signal }),
      refetchInterval: ({ state }) => (state.data?.some(one => one.ended_at === null) ? 2000 : 10_000),
    }),
  run: (app_name: string, run_id: string) =>
    queryOptions({
      queryKey: inProject('runs', app_name, run_id),
      queryFn: ({ signal }) => api.getRun({ app_name, run_id }, { signal }),
      refetchInterval: ({ state }) => state.data?.ended_at === null && 1500,
    }),
  lastRun: (app_name: string, job_name: string) =>
    queryOptions({
      queryKey: inProject('last-run', app_name, job_name),
      queryFn: async ({ signal }) =>
        (await api.listRuns({ app_name, query: { job_name, limit: 1 } }, { signal }))[0] ?? null,
      staleTime: 60_000,
    }),
  /**
   * The log of a run. @param ended_at part of the query key, so that the end of the run causes a last read of its log
   */
  runLog: (app_name: string, run_id: string, ended_at: string | null) =>
    queryOptions({
      queryKey: inProject('runs', app_name, run_id, 'log', ended_at),
      queryFn: ({ signal }) => api.getRunLog({ app_name, run_id }, { signal }),
    }),
  history: (app_name: string, range: AppHistory['range']) =>
    queryOptions({
      queryKey: inProject('history', app_name, range),
      queryFn: ({ signal }) => api.getAppHistory({ app_name, query: { range } }, { signal }),
      refetchInterval: range === '1h' ? 15_000 : 60_000,
      placeholderData: keepPreviousData,
    }),
  deployments: (app_name: string) =>
    queryOptions({
      queryKey: inProject('deployments', app_name),
      queryFn: ({ signal }) => api.listDeployments({ app_name, query: { limit: 50 } }, { signal }),
    }),
  deployment: (app_name: string, job_id: string) =>
    queryOptions({
      queryKey: inProject('deployment', app_name, job_id),
      queryFn: ({ signal }) => api.getDeployment({ app_name, job_id }, { signal }),
    }),
  /**
   * The differences between two deployments. Cached longer than other data, because a deployment's configuration does
   * not change.
   */
  diff: (app_name: string, job_id: string, base: string) =>
    queryOptions({
      queryKey: inProject('diff', app_name, job_id, base),
      queryFn: ({ signal }) => api.compareDeployment({ app_name, job_id, query: { base } }, { signal }),
      staleTime: 30_000,
    }),
  builds: (app_name: string) =>
    queryOptions({
      queryKey: inProject('builds', app_name),
      queryFn: ({ signal }) => api.listBuilds({ app_name, query: { limit: 50 } }, { signal }),
    }),
  env: (app_name: string) =>
    queryOptions({
      queryKey: inProject('env', app_name),
      queryFn: ({ signal }) => api.listAppEnv({ app_name }, { signal }),
    }),
  appEnvGroups: (app_name: string) =>
    queryOptions({
      queryKey: inProject('app-env-groups', app_name),
      queryFn: ({ signal }) => api.listAppEnvGroups({ app_name }, { signal }),
    }),
  appEnvVersions: (app_name: string) =>
    queryOptions({
      queryKey: inProject('env-versions', app_name),
      queryFn: ({ signal }) => api.listAppEnvVersions({ app_name }, { signal }),
    }),
  envGroups: () =>
    queryOptions({ queryKey: inProject('env-groups'), queryFn: ({ signal }) => api.listEnvGroups({}, { signal }) }),
  envGroup: (group_name: string) =>
    queryOptions({
      queryKey: inProject('env-group', group_name),
      queryFn: ({ signal }) => api.listEnvGroupVariables({ group_name }, { signal }),
    }),
  envGroupVersions: (group_name: string) =>
    queryOptions({
      queryKey: inProject('env-group-versions', group_name),
      queryFn: ({ signal }) => api.listEnvGroupVersions({ group_name }, { signal }),
    }),
  appFiles: (app_name: string) =>
    queryOptions({
      queryKey: inProject('app-files', app_name),
      queryFn: ({ signal }) => api.listAppFiles({ app_name }, { signal }),
    }),
  domains: (app_name: string) =>
    queryOptions({
      queryKey: inProject('domains', app_name),
      queryFn: ({ signal }) => api.listDomains({ app_name }, { signal }),
    }),
  services: (app_name: string) =>
    queryOptions({
      queryKey: inProject('services', app_name),
      queryFn: ({ signal }) => api.listTcpServices({ app_name }, { signal }),
    }),
  rules: (app_name: string) =>
    queryOptions({
      queryKey: inProject('rules', app_name),
      queryFn: ({ signal }) => api.listSecurityRules({ app_name }, { signal }),
    }),
  appVolumes: (app_id: string) =>
    queryOptions({
      queryKey: inProject('app-volumes', app_id),
      queryFn: ({ signal }) => api.listAppVolumes({ app_id }, { signal }),
    }),
  vmSnapshots: (app_name: string, job_id: string) =>
    queryOptions({
      queryKey: inProject('vm-snapshots', app_name, job_id),
      queryFn: ({ signal }) => api.listVmSnapshots({ app_name, job_id }, { signal }),
    }),
  balloon: (app_name: string, job_id: string) =>
    queryOptions({
      queryKey: inProject('balloon', app_name, job_id),
      queryFn: ({ signal }) => api.getBalloon({ app_name, job_id }, { signal }),
    }),
  migration: (app_name: string, job_id: string) =>
    queryOptions({
      queryKey: inProject('migration', app_name, job_id),
      queryFn: ({ signal }) => api.getMigration({ app_name, job_id }, { signal }),
    }),
  repositories: () =>
    queryOptions({
      queryKey: inProject('repositories'),
      queryFn: ({ signal }) => api.listRepositories({}, { signal }),
      staleTime: 60_000,
    }),

  volumes: () =>
    queryOptions({
      queryKey: inProject('volumes'),
      queryFn: ({ signal }) => api.listVolumes({}, { signal }),
      refetchInterval: ({ state }) =>
        state.data?.some(({ status }) => status === 'creating' || status === 'restoring') ? 1000 : 15_000,
    }),
  volumeUsage: (volume_id: string) =>
    queryOptions({
      queryKey: inProject('volume-usage', volume_id),
      queryFn: ({ signal }) => api.getVolumeUsage({ volume_id }, { signal }),
      refetchInterval: 30_000,
    }),
  volumeSnapshots: (volume_id: string) =>
    queryOptions({
      queryKey: inProject('volume-snapshots', volume_id),
      queryFn: ({ signal }) => api.listVolumeSnapshots({ volume_id }, { signal }),
    }),
  volumeMove: (volume_id: string) =>
    queryOptions({
      queryKey: inProject('volume-move', volume_id),
      queryFn: ({ signal }) => api.getVolumeMove({ volume_id }, { signal }),
    }),

  databases: () =>
    queryOptions({ queryKey: inProject('databases'), queryFn: ({ signal }) => api.listDatabases({}, { signal }) }),
  connection: (id: string) =>
    queryOptions({
      queryKey: inProject('connection', id),
      queryFn: ({ signal }) => api.getDatabaseConnection({ id }, { signal }),
    }),
  branches: (id: string) =>
    queryOptions({
      queryKey: inProject('branches', id),
      queryFn: ({ signal }) => api.listDatabaseBranches({ id }, { signal }),
    }),
  backups: (id: string) =>
    queryOptions({
      queryKey: inProject('backups', id),
      queryFn: ({ signal }) => api.getDatabaseBackups({ id }, { signal }),
    }),
  databaseSnapshots: (id: string) =>
    queryOptions({
      queryKey: inProject('database-snapshots', id),
      queryFn: ({ signal }) => api.listDatabaseSnapshots({ id }, { signal }),
    }),

  schedule: (volume_id: string) =>
    queryOptions({
      queryKey: inProject('schedule', volume_id),
      queryFn: ({ signal }) => api.getVolumeSchedule({ volume_id }, { signal }),
    }),
  usage: () =>
    queryOptions({
      queryKey: inProject('usage'),
      queryFn: ({ signal }) => api.getUsage({}, { signal }),
    }),
  sshKeys: () =>
    queryOptions({
      queryKey: ['ssh-keys'],
      queryFn: ({ signal }) => api.listSshKeys({}, { signal }),
    }),
  registryCredentials: () =>
    queryOptions({
      queryKey: inProject('registry-credentials'),
      queryFn: ({ signal }) => api.listRegistryCredentials({}, { signal }),
    }),

  mesh: () => queryOptions({ queryKey: ['mesh'], queryFn: ({ signal }) => api.getMesh({ signal }) }),
  /** One host; includes the drain report while the host drains. */
  host: (host_id: string) =>
    queryOptions({
      queryKey: ['hosts', host_id],
      queryFn: ({ signal }) => api.getHost({ host_id }, { signal }),
      refetchInterval: 5_000,
    }),
  hostLabels: () =>
    queryOptions({ queryKey: ['host-labels'], queryFn: ({ signal }) => api.listHostLabels({}, { signal }) }),
  hosts: () =>
    queryOptions({
      queryKey: ['hosts'],
      queryFn: ({ signal }) => api.listHosts({}, { signal }),
      refetchInterval: 5_000,
    }),
  billing: () => queryOptions({ queryKey: inProject('billing'), queryFn: ({ signal }) => api.getBilling({ signal }) }),
  products: () =>
    queryOptions({ queryKey: ['products'], queryFn: ({ signal }) => api.listBillingProducts({ signal }) }),
  notifications: (limit: number, unread_only: boolean) =>
    queryOptions({
      queryKey: ['notifications', limit, unread_only],
      queryFn: ({ signal }) => api.listNotifications({ query: { limit, unread_only } }, { signal }),
    }),
  activity: (limit: number) =>
    queryOptions({
      queryKey: inProject('activity', limit),
      queryFn: ({ signal }) => api.listAuditLogs({ query: { scope: 'project', limit } }, { signal }),
      refetchInterval: 10_000,
      placeholderData: keepPreviousData,
    }),
  audit: (query: { readonly action?: string; readonly resource_type?: string; readonly offset: number }) =>
    queryOptions({
      queryKey: inProject('audit', query),
      queryFn: ({ signal }) => api.listAuditLogs({ query: { ...query, limit: 50 } }, { signal }),
      placeholderData: keepPreviousData,
    }),
}

interface Changing {
  readonly state: { readonly data?: readonly { readonly status?: string | undefined }[] | undefined }
}

/** Polling interval for `refetchInterval`: short while an item of the list is being created. */
export const whileCreating = ({ state }: Changing) =>
  state.data?.some(one => one.status === 'creating') ? 1000 : 30_000

/** Refetches all queries of the project whose key begins with one of these names. */
export const refreshAll = (...names: readonly string[]) =>
  Promise.all(names.map(name => queryClient.invalidateQueries({ queryKey: inProject(name) })))
