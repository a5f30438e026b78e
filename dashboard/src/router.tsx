/** All routes of the dashboard. The code of a page is loaded when the page is first opened. */
import {
  createRootRoute,
  createRoute,
  createRouter,
  lazyRouteComponent,
  Navigate,
  Outlet,
  redirect,
} from '@tanstack/react-router'
import { sessionState } from './api/session.ts'
import { Shell } from './shell/shell.tsx'
import { NotFound } from './pages/not-found.tsx'
import { Problem, Rows } from './ui/states.tsx'

interface Back {
  readonly next?: string
}

/** The path to open after signing in; rejects other origins. */
const backOf = (search: Record<string, unknown>): Back =>
  typeof search.next === 'string' && /^\/(?!\/)/.test(search.next) ? { next: search.next } : {}

const root = createRootRoute({ component: Outlet, notFoundComponent: NotFound })

const open = { getParentRoute: () => root, validateSearch: backOf } as const
const signIn = createRoute({
  ...open,
  path: '/signin',
  component: lazyRouteComponent(() => import('./pages/sign-in.tsx'), 'SignIn'),
})
const signUp = createRoute({
  ...open,
  path: '/signup',
  component: lazyRouteComponent(() => import('./pages/sign-up.tsx'), 'SignUp'),
})

const links = [
  createRoute({
    ...open,
    path: '/forgot',
    component: lazyRouteComponent(() => import('./pages/link.tsx'), 'ForgotPassword'),
  }),
  createRoute({
    ...open,
    path: '/link/verify',
    component: lazyRouteComponent(() => import('./pages/link.tsx'), 'VerifyEmail'),
  }),
  createRoute({
    ...open,
    path: '/link/reset',
    component: lazyRouteComponent(() => import('./pages/link.tsx'), 'ResetPassword'),
  }),
] as const

const shell = createRoute({
  getParentRoute: () => root,
  id: 'shell',
  component: Shell,
  beforeLoad: ({ location }) => {
    if (sessionState.get() !== 'in')
      throw redirect({ to: '/signin', search: location.href === '/' ? {} : { next: location.href } })
  },
})
const inside = { getParentRoute: () => shell } as const

const home = createRoute({ ...inside, path: '/', component: () => <Navigate to="/apps" replace /> })
const invitation = createRoute({
  ...inside,
  path: '/link/invitation',
  component: lazyRouteComponent(() => import('./pages/link.tsx'), 'AcceptInvitation'),
})
const apps = createRoute({
  ...inside,
  path: '/apps',
  component: lazyRouteComponent(() => import('./pages/apps.tsx'), 'Apps'),
})
const sources = ['repository', 'folder'] as const
const newApp = createRoute({
  ...inside,
  path: '/apps/new',
  validateSearch: (search: Record<string, unknown>): { readonly source?: (typeof sources)[number] } => {
    const source = sources.find(one => one === search.source)
    return source ? { source } : {}
  },
  component: lazyRouteComponent(() => import('./pages/new-app.tsx'), 'NewApp'),
})

const app = createRoute({
  ...inside,
  path: '/apps/$app',
  component: lazyRouteComponent(() => import('./pages/app/frame.tsx'), 'AppFrame'),
})
const ofApp = { getParentRoute: () => app } as const
const appPages = [
  createRoute({
    ...ofApp,
    path: '/',
    component: lazyRouteComponent(() => import('./pages/app/overview.tsx'), 'Overview'),
  }),
  createRoute({
    ...ofApp,
    path: '/deployments',
    component: lazyRouteComponent(() => import('./pages/app/deployments.tsx'), 'Deployments'),
  }),
  createRoute({
    ...ofApp,
    path: '/logs',
    validateSearch: (search: Record<string, unknown>): { readonly deployment?: string } =>
      typeof search.deployment === 'string' ? { deployment: search.deployment } : {},
    component: lazyRouteComponent(() => import('./pages/app/logs.tsx'), 'Logs'),
  }),
  createRoute({
    ...ofApp,
    path: '/files',
    validateSearch: (search: Record<string, unknown>): { readonly at?: string } =>
      typeof search.at === 'string' ? { at: search.at } : {},
    component: lazyRouteComponent(() => import('./pages/app/files/page.tsx'), 'Files'),
  }),
  createRoute({
    ...ofApp,
    path: '/terminal',
    component: lazyRouteComponent(() => import('./pages/app/terminal.tsx'), 'Terminal'),
  }),
  createRoute({
    ...ofApp,
    path: '/jobs',
    validateSearch: (search: Record<string, unknown>): { readonly run?: string } =>
      typeof search.run === 'string' ? { run: search.run } : {},
    component: lazyRouteComponent(() => import('./pages/app/jobs/page.tsx'), 'Jobs'),
  }),
  createRoute({
    ...ofApp,
    path: '/metrics',
    component: lazyRouteComponent(() => import('./pages/app/metrics.tsx'), 'Metrics'),
  }),
  createRoute({
    ...ofApp,
    path: '/scale',
    component: lazyRouteComponent(() => import('./pages/app/scale.tsx'), 'Scale'),
  }),
  createRoute({
    ...ofApp,
    path: '/environment',
    component: lazyRouteComponent(() => import('./pages/app/environment.tsx'), 'Environment'),
  }),
  createRoute({
    ...ofApp,
    path: '/network',
    component: lazyRouteComponent(() => import('./pages/app/network.tsx'), 'Network'),
  }),
  createRoute({
    ...ofApp,
    path: '/volumes',
    component: lazyRouteComponent(() => import('./pages/app/volumes.tsx'), 'AppVolumes'),
  }),
  createRoute({
    ...ofApp,
    path: '/settings',
    component: lazyRouteComponent(() => import('./pages/app/settings.tsx'), 'Settings'),
  }),
] as const
const deployment = createRoute({
  ...inside,
  path: '/apps/$app/deployments/$job',
  component: lazyRouteComponent(() => import('./pages/deployment/page.tsx'), 'DeploymentPage'),
})

const templates = createRoute({
  ...inside,
  path: '/templates',
  component: lazyRouteComponent(() => import('./pages/templates/list.tsx'), 'Templates'),
})
const template = createRoute({
  ...inside,
  path: '/templates/$name',
  component: lazyRouteComponent(() => import('./pages/templates/page.tsx'), 'TemplatePage'),
})

const volumes = createRoute({
  ...inside,
  path: '/volumes',
  component: lazyRouteComponent(() => import('./pages/volumes/list.tsx'), 'Volumes'),
})
const volume = createRoute({
  ...inside,
  path: '/volumes/$id',
  component: lazyRouteComponent(() => import('./pages/volumes/page.tsx'), 'VolumePage'),
})
const databases = createRoute({
  ...inside,
  path: '/databases',
  component: lazyRouteComponent(() => import('./pages/databases/list.tsx'), 'Databases'),
})
const database = createRoute({
  ...inside,
  path: '/databases/$id',
  component: lazyRouteComponent(() => import('./pages/databases/page.tsx'), 'DatabasePage'),
})
/**
 * Page to which the code host (such as GitHub) redirects after the user has installed Mote's integration there; see
 * docs/builds.md.
 */
const connected = createRoute({
  ...inside,
  path: '/connected',
  validateSearch: (search: Record<string, unknown>) => ({
    installation_id: Number(search.installation_id),
    setup_action: String(search.setup_action ?? ''),
    ...(typeof search.state === 'string' ? { state: search.state } : {}),
    ...(typeof search.code === 'string' ? { code: search.code } : {}),
  }),
  component: lazyRouteComponent(() => import('./pages/connected.tsx'), 'Connected'),
})
const mesh = createRoute({
  ...inside,
  path: '/mesh',
  component: lazyRouteComponent(() => import('./pages/mesh.tsx'), 'Mesh'),
})
const hosts = createRoute({
  ...inside,
  path: '/hosts',
  component: lazyRouteComponent(() => import('./pages/hosts.tsx'), 'Hosts'),
})
const billing = createRoute({
  ...inside,
  path: '/billing',
  component: lazyRouteComponent(() => import('./pages/billing.tsx'), 'Billing'),
})
const notifications = createRoute({
  ...inside,
  path: '/notifications',
  component: lazyRouteComponent(() => import('./pages/notifications.tsx'), 'Notifications'),
})
const audit = createRoute({
  ...inside,
  path: '/audit',
  component: lazyRouteComponent(() => import('./pages/audit.tsx'), 'Audit'),
})
const members = createRoute({
  ...inside,
  path: '/projects/$slug/members',
  component: lazyRouteComponent(() => import('./pages/members.tsx'), 'Members'),
})
const project = createRoute({
  ...inside,
  path: '/projects/$slug',
  component: lazyRouteComponent(() => import('./pages/project.tsx'), 'ProjectSettings'),
})

const account = createRoute({
  ...inside,
  path: '/account',
  component: lazyRouteComponent(() => import('./pages/account/frame.tsx'), 'AccountFrame'),
})
const ofAccount = { getParentRoute: () => account } as const
const accountPages = [
  createRoute({
    ...ofAccount,
    path: '/',
    component: lazyRouteComponent(() => import('./pages/account/profile.tsx'), 'Profile'),
  }),
  createRoute({
    ...ofAccount,
    path: '/security',
    component: lazyRouteComponent(() => import('./pages/account/security.tsx'), 'Security'),
  }),
  createRoute({
    ...ofAccount,
    path: '/sessions',
    component: lazyRouteComponent(() => import('./pages/account/sessions.tsx'), 'Sessions'),
  }),
  createRoute({
    ...ofAccount,
    path: '/ssh-keys',
    component: lazyRouteComponent(() => import('./pages/account/ssh-keys.tsx'), 'SshKeys'),
  }),
  createRoute({
    ...ofAccount,
    path: '/tokens',
    component: lazyRouteComponent(() => import('./pages/account/tokens.tsx'), 'Tokens'),
  }),
] as const

const tree = root.addChildren([
  signIn,
  signUp,
  ...links,
  shell.addChildren([
    ...[
      home,
      apps,
      newApp,
      connected,
      app.addChildren([...appPages]),
      deployment,
      volumes,
      volume,
      databases,
      database,
    ],
    ...[
      invitation,
      templates,
      template,
      mesh,
      hosts,
      billing,
      notifications,
      audit,
      members,
      project,
      account.addChildren([...accountPages]),
    ],
  ]),
])

export const router = createRouter({
  routeTree: tree,
  defaultPreload: 'intent',
  scrollRestoration: true,
  defaultErrorComponent: ({ error, reset }) => <Problem error={error} retry={reset} />,
  defaultPendingComponent: () => <Rows />,
})

declare module '@tanstack/react-router' {
  interface Register {
    router: typeof router
  }
}
