/** Usage of projects: metering, prices and budgets. */
export { usageFeature } from './routes.ts'
export { budgetKeeping, usageCounting } from './sweep.ts'
