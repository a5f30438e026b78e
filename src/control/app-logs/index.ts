/** Logs of an app over all its deployments: search, download, retention. */
export { filterOf, type FilterQuery, type LogFilter } from './filter.ts'
export { type AppLine, readLines } from './read.ts'
export { filterFields, LogLine } from './resources.ts'
export { appLogFeature } from './routes.ts'
export { sourcesIn } from './store.ts'
export { logRetention } from './sweep.ts'
