/** Serves the dashboard. */
export { dashboardPages } from './pages.ts'
