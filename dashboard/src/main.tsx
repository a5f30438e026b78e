import { QueryClientProvider } from '@tanstack/react-query'
import { RouterProvider } from '@tanstack/react-router'
import { createRoot } from 'react-dom/client'
import { refresh } from './api/client.ts'
import { queryClient } from './api/queries.ts'
import { sessionState, startSession } from './api/session.ts'
import { router } from './router.tsx'
import { applyTheme } from './shell/theme.ts'
import './styles.css'
import { TipProvider } from './ui/tip.tsx'
import { Toasts } from './ui/toast.tsx'

const root = document.getElementById('root')
if (!root) throw new Error('BUG: the page has no root')

applyTheme()
// Load the code of the requested page while the session is being resumed, not afterwards.
const [pages] = router.getMatchedRoutes(location.pathname)
for (const { options } of pages) void options.component?.preload?.()
// If the server cannot be reached, keep the refresh token; the next reload tries again.
await startSession(refresh).catch(() => sessionState.set('out'))
// After a sign-out, here or in another tab, remove the account's data from memory.
sessionState.subscribe(() => {
  if (sessionState.get() === 'out') queryClient.clear()
  void router.invalidate()
})

createRoot(root).render(
  <QueryClientProvider client={queryClient}>
    <TipProvider>
      <RouterProvider router={router} />
      <Toasts />
    </TipProvider>
  </QueryClientProvider>,
)
