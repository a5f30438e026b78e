import { Domains } from './domains.tsx'
import { Rules } from './rules.tsx'
import { useApp } from './use-app.ts'

export function Network() {
  const app = useApp()
  return (
    <div className="space-y-4">
      <Domains app={app} />
      <Rules app={app} />
    </div>
  )
}
