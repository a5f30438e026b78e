export { usageFeature } from './routes.ts'
export { budgetKeeping, usageCounting } from './sweep.ts'
