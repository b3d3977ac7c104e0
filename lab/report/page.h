// The page as bytes: the frame comes from page/ (embed.cmake), the data from the results.
#ifndef LAB_REPORT_PAGE_H
#define LAB_REPORT_PAGE_H

#include "lab/report/run_results.h"

// Made by embed.cmake from page/: everything before and after the data.
extern const unsigned char lab_page_head[], lab_page_tail[];
extern const size_t lab_page_head_bytes, lab_page_tail_bytes;

// The results as JSON for the page's script (formats: README.md). NULL: out of memory.
json_t *lab_page_json(const struct lab_run_results *results);

// `json` in the form that is safe inside <script type="application/json">: no '<' in it, so that no text can
// end the element or begin a comment. malloc'ed; NULL: out of memory.
char *lab_page_embed(const json_t *json);

#endif
