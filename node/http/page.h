// The page at "/": shows /status live and loads nothing from anywhere else. The files of page/, as
// strings.
#ifndef NODE_HTTP_PAGE_H
#define NODE_HTTP_PAGE_H

extern const char node_page_html[], node_page_css[], node_page_js[];

#endif
